package node

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Command is one that runs on a rented machine.
type Command struct {
	Name string
	// Line is what the machine's shell is given. Words in braces are put in after
	// they were checked; everything else is as it stands here.
	Line string
	Why  string
}

// home is our directory on the machine.
const home = `"$HOME/.assay"`

// commands is all that ever runs there.
var commands = []Command{
	{"prepare", `umask 077 && mkdir -p ` + home + ` && touch "$HOME/.no_auto_tmux"`, "our directory; Vast.ai wraps sessions in tmux without that file"},
	{"lease", `cut -d . -f 1 /proc/uptime >` + home + `/lease`, "the dead man ends a machine whose lease is not renewed; by the time since boot"},
	{"architecture", `uname -m`, "which node binary to send"},
	{"gpus", `nvidia-smi --query-gpu=name,uuid,driver_version,memory.total,memory.free --format=csv,noheader,nounits`, "is it the GPU that was rented, and is its memory free"},
	{"cuda", `nvidia-smi -q -d MEMORY`, "the CUDA version that the driver has"},
	{"node-hash", `sha256sum <` + home + `/node`, "is our binary there, and whole"},
	{"node-send", `umask 077 && cat >` + home + `/node.new`, "our binary, on standard input"},
	{"node-sent", `sha256sum <` + home + `/node.new`, "did it arrive whole"},
	{"node-keep", `chmod 700 ` + home + `/node.new && mv ` + home + `/node.new ` + home + `/node`, "only then it may run"},
	{"ollama-there", `command -v ollama`, "is the engine installed"},
	{"ollama-install", `curl -fsSL https://ollama.com/install.sh | sh`, "its own installer, when it is not"},
	{"ollama-health", `curl -fsS --max-time 5 http://127.0.0.1:11434/api/version`, "does it answer"},
	{"ollama-start", `setsid ollama serve >>` + home + `/engine.log 2>&1 </dev/null &`, "when it does not"},
	{"ollama-stop", `pkill -x ollama`, "for the one restart"},
	{"ollama-pull", `ollama pull {model} >` + home + `/pull.log 2>&1`, "the model"},
	{"ollama-list", `ollama list`, "is it there after the pull"},
	{"ollama-warm", `curl -fsS --max-time {seconds} http://127.0.0.1:11434/api/generate -d '{"model":"{model}","prompt":"Say hello.","stream":false,"options":{"num_predict":8}}'`, "the first answer loads the model"},
	{"vllm-there", `command -v vllm`, "is the engine installed"},
	{"vllm-install", `python3 -m pip install --quiet vllm`, "when it is not"},
	{"vllm-health", `curl -fsS --max-time 5 http://127.0.0.1:8000/health`, "does it answer"},
	{"vllm-start", `setsid vllm serve {model} --host 127.0.0.1 --port 8000 >>` + home + `/engine.log 2>&1 </dev/null &`, "it loads the model as it starts"},
	{"vllm-stop", `pkill -f "vllm serve"`, "for the one restart"},
	{"vllm-list", `curl -fsS --max-time 5 http://127.0.0.1:8000/v1/models`, "which model it serves"},
	{"vllm-warm", `curl -fsS --max-time {seconds} http://127.0.0.1:8000/v1/completions -H 'Content-Type: application/json' -d '{"model":"{model}","prompt":"Say hello.","max_tokens":8}'`, "the first answer"},
	{"bench-start", `cd ` + home + ` && if mkdir {run}; then (setsid sh -c './node hammer --base-url http://127.0.0.1:{port} --backend {backend} --model {model} --duration {seconds}s --max-concurrency {streams} --out {run}/run --quiet >{run}/hammer.log 2>&1; echo $? >{run}/exit' >/dev/null 2>&1 </dev/null &) && echo started; else echo running; fi`, "the measurement, once: a second start finds the first"},
	{"bench-look", `cut -d . -f 1 /proc/uptime >` + home + `/lease; cd ` + home + `/{run} && { cat exit 2>/dev/null || echo running; } && { cat run/checkpoint.json 2>/dev/null || true; }`, "has it ended, how, and what does it measure"},
	{"bench-stop", `cd ` + home + `/{run} && pkill -INT -f "[.]/node hammer .*--out {run}/run"`, "when it is stuck; it saves what there is"},
	{"run-sizes", `cd ` + home + `/{run}/run && stat -c '%s %F|%n' -- *`, "how large each file of the run directory is, before it is read"},
	{"run-hash", `sha256sum <` + home + `/{run}/run/{file}`, "and what it should hash to"},
	{"run-read", `cat ` + home + `/{run}/run/{file}`, "its bytes"},
	{"logs", `cd ` + home + ` && for f in {run}/hammer.log engine.log pull.log; do echo "== $f"; tail -c 32768 "$f" 2>/dev/null; done; true`, "what went wrong, with partial results"},
}

// words are what is put into a line, by name.
type words map[string]string

// checks are what each word must look like. None lets anything through that a
// shell, or JSON in quotes, would read as more than a word; and none begins with
// a dash, which a program would take for a flag.
var checks = map[string]*regexp.Regexp{
	"model":   regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}$`),
	"seconds": regexp.MustCompile(`^[1-9][0-9]{0,5}$`),
	"streams": regexp.MustCompile(`^[1-9][0-9]{0,4}$`),
	"port":    regexp.MustCompile(`^[1-9][0-9]{1,4}$`),
	"backend": regexp.MustCompile(`^(ollama|openai|openai-chat)$`),
	"run":     regexp.MustCompile(`^run-[a-z0-9][a-z0-9-]{0,79}$`),
	"file":    regexp.MustCompile(`^[a-z]+\.jsonl?$`),
}

var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

func checkWord(name, value string) error {
	c, ok := checks[name]
	if !ok || !c.MatchString(value) || strings.Contains(value, "..") {
		return fmt.Errorf("%q cannot be a %s in a command on a rented machine: it must match %s", value, name, c)
	}
	return nil
}

// commandLine fills a line of the list in.
func commandLine(name string, w words) (string, error) {
	i := slices.IndexFunc(commands, func(c Command) bool { return c.Name == name })
	if i < 0 {
		return "", fmt.Errorf("%s is none of the commands that may run on a rented machine", name)
	}
	var bad error
	line := placeholder.ReplaceAllStringFunc(commands[i].Line, func(p string) string {
		word := strings.Trim(p, "{}")
		if err := checkWord(word, w[word]); err != nil && bad == nil {
			bad = fmt.Errorf("%s: %w", name, err)
		}
		return w[word]
	})
	return line, bad
}
