package yamltext

import "testing"

func TestPositionAndCaret(t *testing.T) {
	text := []byte("name: x\ncells:\n  - gpus: [a, b]\n    models:\n      - m\n")
	var into struct {
		Name  string
		Cells []struct {
			GPUs   []string `yaml:"gpus"`
			Models []string
		}
	}
	tree, err := Decode(text, &into)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path         string
		line, column int
		caret        string
	}{
		{"cells[0].gpus[1]", 3, 15, "      - gpus: [a, b]\n                  ^"},
		{"cells[0].models[0]", 5, 9, "          - m\n            ^"},
		{"cells[0].models[7]", 5, 7, "          - m\n          ^"}, // the list
		{"cells[0].engines", 3, 5, "      - gpus: [a, b]\n        ^"},
		{"name", 1, 7, "    name: x\n          ^"},
		{"nothing", 0, 0, ""},
	} {
		line, column := Position(tree, c.path)
		if line != c.line || column != c.column {
			t.Errorf("%s: %d:%d, want %d:%d", c.path, line, column, c.line, c.column)
		}
		if got := Caret(text, line, column); got != c.caret {
			t.Errorf("%s:\n%s\nwant\n%s", c.path, got, c.caret)
		}
	}
}
