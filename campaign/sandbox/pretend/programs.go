package pretend

import "fmt"

// ollama stands in for the engine: our simulator, as the node program that was sent has
// it, under the name of whichever model was pulled.
const ollama = `#!/bin/sh
cd "$HOME" || exit 1
case $1 in
serve)
  echo $$ >serving
  exec .assay/node simulate --listen 127.0.0.1:%[1]d --model "$(cat pulled 2>/dev/null || echo none)" --like ollama --ttft 20ms --itl 2ms ;;
pull)
  echo "$2" >pulled
  pkill -x ollama
  setsid "$0" serve >>.assay/engine.log 2>&1 </dev/null &
  for n in $(seq 100); do
    ! curl -fsS -o /dev/null http://127.0.0.1:%[1]d/api/version 2>/dev/null || exit 0
    sleep 0.1
  done
  exit 1 ;;
list) echo "NAME ID"; echo "$(cat pulled 2>/dev/null) 0f" ;;
esac
`

// pkill ends the engine of this machine, and no other of the same name; a run by its
// own name.
const pkill = `#!/bin/sh
if [ "$*" = "-x ollama" ]; then
  pid=$(cat "$HOME/serving" 2>/dev/null) && kill "$pid" 2>/dev/null || exit 1
  while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
  exit 0
fi
case $* in "-INT -f "*"--out run-"*) exec /usr/bin/pkill "$@" ;; esac
exit 1
`

// Programs are the stand-ins of a machine with one card, by name: they come first in
// its PATH.
func Programs(id, gpu string, vram int64) map[string]string {
	mib := vram >> 20
	return map[string]string{
		"nvidia-smi": fmt.Sprintf("#!/bin/sh\ncase $1 in\n--query-gpu=*) echo 'NVIDIA GeForce %s, GPU-%s, 550.54.15, %d, %d' ;;\n*) echo 'CUDA Version   : 12.4' ;;\nesac\n", gpu, id, mib, mib-400),
		"ollama":     fmt.Sprintf(ollama, EnginePort),
		"pkill":      pkill,
	}
}
