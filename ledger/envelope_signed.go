package ledger

import "bytes"

// SignedBy gives the key id and the signature, in base64, that an envelope in our
// own spelling has, and nothing for any other bytes. It checks no signature: it is
// for what was checked before.
func SignedBy(envelope []byte) (keyID string, sig []byte) {
	const sigLength = 88 // 64 bytes as base64
	end := len(envelope) - len(envelopeTail)
	from := end - sigLength
	at := from - len(envelopeSig) - keyIDLength
	if at < len(envelopeHead)+len(envelopeMid) ||
		!bytes.HasSuffix(envelope[:at], envelopeMid) ||
		!bytes.Equal(envelope[at+keyIDLength:from], envelopeSig) ||
		!bytes.HasSuffix(envelope, envelopeTail) {
		return "", nil
	}
	if keyID = string(envelope[at : at+keyIDLength]); !isSHA256(keyID) {
		return "", nil
	}
	return keyID, envelope[from:end]
}
