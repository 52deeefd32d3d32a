package ledger

import (
	"bytes"
	"encoding/base64"
)

var (
	envelopeHead  = []byte(`{"payloadType":"` + PayloadType + `","payload":"`)
	envelopeMid   = []byte(`","signatures":[{"keyid":"`)
	envelopeSig   = []byte(`","sig":"`)
	envelopeTail  = []byte("\"}]}\n")
	keyIDLength   = 64
	strictPadding = base64.StdEncoding.Strict()
)

// quickEnvelope reads our one spelling, in which each byte has its place, without
// a JSON decoder: nearly everything that a notary reads is in order.
func quickEnvelope(b []byte) (Envelope, bool) {
	if len(b) > MaxValue {
		return Envelope{}, false
	}
	rest, ok := bytes.CutPrefix(b, envelopeHead)
	payload, rest, ok2 := bytes.Cut(rest, envelopeMid)
	if !ok || !ok2 || len(rest) < keyIDLength {
		return Envelope{}, false
	}
	keyID := string(rest[:keyIDLength])
	for _, c := range keyID {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return Envelope{}, false
		}
	}
	sig, ok := bytes.CutPrefix(rest[keyIDLength:], envelopeSig)
	sig, ok2 = bytes.CutSuffix(sig, envelopeTail)
	if !ok || !ok2 {
		return Envelope{}, false
	}
	p, ok := decode64(payload)
	s, ok2 := decode64(sig)
	if !ok || !ok2 {
		return Envelope{}, false
	}
	return Envelope{Payload: p, PayloadType: PayloadType, Signatures: []Signature{{KeyID: keyID, Sig: s}}}, true
}

// decode64 takes standard base64 as its encoder writes it: the decoder alone
// would pass over line ends.
func decode64(b []byte) ([]byte, bool) {
	out := make([]byte, strictPadding.DecodedLen(len(b)))
	n, err := strictPadding.Decode(out, b)
	if err != nil || strictPadding.EncodedLen(n) != len(b) {
		return nil, false
	}
	return out[:n], true
}
