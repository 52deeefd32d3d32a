package assay

import "regexp"

// userinfo is what stands between the scheme and the host of a URL: a user, a
// password, a token.
var userinfo = regexp.MustCompile(`(://)[^/?#\s]*@`)

// Secret stands in records and on terminals where one was.
const Secret = "[secret]"

// MaskURLs hides the users and passwords of all URLs in a text. What it changes
// must not be recorded or printed as it was.
func MaskURLs(text string) string {
	return userinfo.ReplaceAllString(text, "${1}"+Secret+"@")
}
