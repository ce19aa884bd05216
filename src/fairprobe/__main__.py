"""`python -m fairprobe`."""

from fairprobe.cli import main

if __name__ == "__main__":
    main()
