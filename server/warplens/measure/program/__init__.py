"""Judges a program from outside: by what it prints, writes and exits with, and how long it takes."""
