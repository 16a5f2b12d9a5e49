"""`python -m draftproof.fuzz.lossless`."""

import sys

from draftproof.fuzz.lossless.law import main

if __name__ == "__main__":
    sys.exit(main())
