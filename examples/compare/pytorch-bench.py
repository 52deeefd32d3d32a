#!/usr/bin/env python3
"""Plain PyTorch as a benchmark binary: pytorch-bench.py [--threads N] [--model DIR].

Greedy or sampled decoding with a cache of keys and values, one request at a time in
each thread, on processors. The protocol is that of the example beside it.
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True  # leave nothing beside the examples
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "benchmark-binary"))
import bench  # noqa: E402


class Engine:
    def __init__(self, model, threads, seed):
        # Only now: a job of another format is refused before torch is loaded.
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.torch = torch
        torch.set_num_threads(threads)
        torch.manual_seed(seed)
        self.words = AutoTokenizer.from_pretrained(model)
        self.model = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()

    def generate(self, prompt, max_tokens, temperature, ignore_eos):
        """Yields the tokens of an answer, each when it is there."""
        torch = self.torch
        ids = self.words(prompt, return_tensors="pt").input_ids
        cache = None
        for _ in range(max_tokens):
            with torch.inference_mode():
                out = self.model(ids, past_key_values=cache, use_cache=True)
            cache, logits = out.past_key_values, out.logits[0, -1]
            if temperature:
                token = torch.multinomial(torch.softmax(logits / temperature, -1), 1)
            else:
                token = logits.argmax(-1, keepdim=True)
            if not ignore_eos and token.item() == self.words.eos_token_id:
                return
            ids = token.view(1, 1)
            yield self.words.decode(token.tolist())


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--threads", type=int, default=1)
    args.add_argument("--model")
    args = args.parse_args()
    job = bench.read_job()
    model = args.model or job.get("model_path")
    if not model:
        sys.exit("name the directory of a model: model_path in the configuration, or --model")
    bench.run(Engine(model, args.threads, job["seed"]), job)


if __name__ == "__main__":
    main()
