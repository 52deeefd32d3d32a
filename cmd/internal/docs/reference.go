package docs

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
)

// made is the second line of each page.
const made = "Made from the program's own %s (`go generate ./cmd/assay`); do not edit.\n"

// reference makes the pages of docs/reference: one for each command of the root with
// those below it, and one each for formats and the API, from their documents.
func reference(root *cobra.Command, pages fs.FS) (map[string][]byte, error) {
	files := map[string][]byte{"README.md": index(root)}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			files[c.Name()+".md"] = commandPage(c)
		}
	}
	var err error
	if files["formats.md"], err = formatsPage(pages); err != nil {
		return nil, err
	}
	if files["api.md"], err = apiPage(pages); err != nil {
		return nil, err
	}
	return files, nil
}

// index is the page that leads to the others.
func index(root *cobra.Command) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Reference\n\n"+made+"\n## Commands\n\n| command | what it does |\n| --- | --- |\n", "help")
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			fmt.Fprintf(&b, "| [`%s`](%s.md) | %s |\n", c.CommandPath(), c.Name(), prose(c.Short))
		}
	}
	b.WriteString("\n## Exit codes\n\nThe same for every command: " + prose(exitCodes(root)) + "\n")
	b.WriteString("\n## Flags of every command\n\n")
	optionTable(&b, options(root.PersistentFlags()))
	b.WriteString("\n## Numbers, files and the API\n\n" +
		"- [Metrics](../metrics.md): every figure, its unit and what it means\n" +
		"- [Readings](../telemetry.md): what is read beside the load\n" +
		"- [Formats](formats.md): every file that is read or written, with its schema\n" +
		"- [API](api.md): what `assay server` answers\n" +
		"- [Flags of `vllm bench serve`](../vllm.md): what becomes of each\n")
	return []byte(b.String())
}

// commandPage is a command's page.
func commandPage(cmd *cobra.Command) []byte {
	var b strings.Builder
	eachCommand(cmd, func(c *cobra.Command) {
		level := "##"
		if c == cmd {
			level = "#"
		}
		fmt.Fprintf(&b, "%s `%s`\n\n", level, c.CommandPath())
		if c == cmd {
			fmt.Fprintf(&b, made+"\n", "help")
		}
		help(&b, c)
	})
	return []byte(strings.TrimRight(b.String(), "\n") + "\n")
}

// help is what a command's --help says.
func help(b *strings.Builder, cmd *cobra.Command) {
	for _, p := range passages(about(cmd)) {
		if p.asIs {
			fence(b, strings.Join(p.lines, "\n"))
			continue
		}
		b.WriteString(prose(strings.Join(p.lines, " ")) + "\n\n")
	}
	own := options(cmd.NonInheritedFlags())
	if !cmd.HasAvailableSubCommands() || len(own) > 0 {
		fence(b, cmd.UseLine())
	}
	if cmd.Example != "" {
		b.WriteString("Examples:\n\n")
		fence(b, cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("| command | what it does |\n| --- | --- |\n")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				fmt.Fprintf(b, "| [`%s`](#%s) | %s |\n", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"), prose(c.Short))
			}
		}
		b.WriteString("\n")
	}
	if len(own) > 0 {
		optionTable(b, own)
		b.WriteString("\n")
	}
}

func fence(b *strings.Builder, text string) { fmt.Fprintf(b, "```text\n%s\n```\n\n", text) }

func optionTable(b *strings.Builder, list []option) {
	b.WriteString("| flag | default | meaning |\n| --- | --- | --- |\n")
	for _, o := range list {
		initial := ""
		if o.initial != "" {
			initial = "`" + cell(o.initial) + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", cell(o.spelled()), initial, prose(o.meaning))
	}
}

// plain makes words of a help text stand in Markdown as they are.
var plain = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`, "]", `\]`, "|", `\|`, "\n", " ")

func prose(text string) string { return plain.Replace(text) }

// cell is code within a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "`", "'", "\n", " ").Replace(text)
}

// formatsPage lists the JSON Schemas by what they say of themselves.
func formatsPage(pages fs.FS) ([]byte, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# Formats\n\n"+made+"\n[The pages of the formats](../formats/) explain each member.\n\n| schema | of what | description |\n| --- | --- | --- |\n", "schemas")
	names, err := fs.Glob(pages, "formats/schema/*.json")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := fs.ReadFile(pages, name)
		if err != nil {
			return nil, err
		}
		var schema struct{ Title, Description string }
		if err := json.Unmarshal(text, &schema); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		fmt.Fprintf(&b, "| [`%s`](../%s) | %s | %s |\n", strings.TrimSuffix(path.Base(name), ".schema.json"), name, prose(schema.Title), prose(schema.Description))
	}
	return []byte(b.String()), nil
}

// apiPage lists the operations of the API, under their tags.
func apiPage(pages fs.FS) ([]byte, error) {
	text, err := fs.ReadFile(pages, "api/openapi.yaml")
	if err != nil {
		return nil, err
	}
	var doc struct {
		Info  struct{ Title, Version, Description string }
		Tags  []struct{ Name, Description string }
		Paths yaml.MapSlice
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("read the API's document: %w", err)
	}
	rows := map[string][]string{}
	for _, p := range doc.Paths {
		methods, _ := p.Value.(map[string]any)
		for _, method := range []string{"get", "put", "post", "patch", "delete"} {
			op, ok := methods[method].(map[string]any)
			if !ok {
				continue
			}
			words := func(key string) string { s, _ := op[key].(string); return s }
			tag := ""
			if tags, _ := op["tags"].([]any); len(tags) > 0 {
				tag, _ = tags[0].(string)
			}
			rows[tag] = append(rows[tag], fmt.Sprintf("| `%s %s` | %s | %s |\n", strings.ToUpper(method), p.Key, prose(words("summary")), prose(strings.TrimSpace(words("description")))))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# API\n\n"+made+"\n[openapi.yaml](../api/openapi.yaml) is the document itself, with every parameter, answer and schema.\n\n%s\n", "API document", strings.TrimSpace(doc.Info.Description))
	for _, tag := range doc.Tags {
		if len(rows[tag.Name]) > 0 {
			fmt.Fprintf(&b, "\n## %s\n\n| operation | summary | description |\n| --- | --- | --- |\n%s", prose(tag.Description), strings.Join(rows[tag.Name], ""))
		}
	}
	return []byte(b.String()), nil
}
