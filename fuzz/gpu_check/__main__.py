"""`python -m draftproof.fuzz.gpu_check`."""

import sys

from draftproof.fuzz.gpu_check.check import main

if __name__ == "__main__":
    sys.exit(main())
