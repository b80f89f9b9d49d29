"""`python -m seren_corpus_callosum`."""

from .cli import main

if __name__ == "__main__":
    main()
