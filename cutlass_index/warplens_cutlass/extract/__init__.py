# SPDX-License-Identifier: Apache-2.0
"""From the text of one file to plain facts: definitions, documentation, mentions. No database here."""
