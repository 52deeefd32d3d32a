"""Another implementation of DSSE: reads an envelope on standard input, verifies
it with the key in hexadecimal that is its argument, and writes an envelope of its
own, with its key, on standard output."""

import json
import sys

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner, SSlibKey

theirs = Envelope.from_dict(json.load(sys.stdin))
keyid = theirs.signatures and list(theirs.signatures)[0]
key = SSlibKey(keyid, "ed25519", "ed25519", {"public": sys.argv[1]})
theirs.verify([key], 1)

theirs.payload += b" "
try:
    theirs.verify([key], 1)
except VerificationError:
    pass
else:
    sys.exit("an altered payload was verified")

signer = CryptoSigner(Ed25519PrivateKey.generate())
made = Envelope(b'{"made": "elsewhere"}', "application/vnd.in-toto+json", {})
made.sign(signer)
json.dump({"envelope": made.to_dict(), "public": signer.public_key.keyval["public"]}, sys.stdout, indent=1)
