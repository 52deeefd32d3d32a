"""llama.cpp's HTTP server in this process: llamacpp-serve.py MODEL.gguf PORT ALIAS [THREADS].

One thread unless said, because two fight with the client on a machine of two cores; four
slots, as the Ollama beside it has.
"""

import signal
import sys

import xllamacpp


def main(model, port, alias, threads=1):
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {alias}
    params.hostnames = ["127.0.0.1"]
    params.port = int(port)
    params.n_parallel = 4
    params.n_ctx = 4 * 2048
    params.cpuparams.n_threads = int(threads)
    params.warmup = False
    params.endpoint_metrics = True
    server = xllamacpp.Server(params)  # kept: it stops when it is collected
    print("serving", server.listening_address, flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    main(*sys.argv[1:])
