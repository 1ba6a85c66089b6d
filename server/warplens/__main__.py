"""`python -P -m warplens`."""


def main() -> None:
    """Entry point of the `warplens` command."""


if __name__ == "__main__":
    main()
