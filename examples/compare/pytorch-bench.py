#!/usr/bin/env python3
"""Plain PyTorch as a benchmark binary: pytorch-bench.py [--threads N] [--model DIR].

A Llama written out in torch, on processors, with a cache of keys and values: what an
engine is compared with to see what its engineering is worth. DIR is a model as it is
published: config.json, *.safetensors and tokenizer.json. It needs torch, safetensors
and tokenizers. The protocol is that of the example beside it.
"""
import argparse
import glob
import json
import math
import os
import sys

sys.dont_write_bytecode = True  # leave nothing beside the examples
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "benchmark-binary"))
import bench  # noqa: E402


class Llama:
    def __init__(self, directory, torch, load):
        self.torch, self.silu, self.attend = torch, torch.nn.functional.silu, torch.nn.functional.scaled_dot_product_attention
        with open(os.path.join(directory, "config.json")) as f:
            c = json.load(f)
        if c.get("model_type") != "llama":
            sys.exit("this program runs models of type llama, not %r" % c.get("model_type"))
        self.layers, self.heads, self.kv = c["num_hidden_layers"], c["num_attention_heads"], c["num_key_value_heads"]
        self.size = c.get("head_dim") or c["hidden_size"] // self.heads
        self.eps = c["rms_norm_eps"]
        eos = c.get("eos_token_id")
        self.eos = set(eos if isinstance(eos, list) else [eos])
        self.w = {}
        for file in sorted(glob.glob(os.path.join(directory, "*.safetensors"))):
            self.w.update({k: v.float() for k, v in load(file).items()})
        self.w.setdefault("lm_head.weight", self.w["model.embed_tokens.weight"])
        self.frequencies = self.rope(c)

    def rope(self, c):
        """Frequencies of the rotation, stretched as Llama 3.1 and later have it."""
        torch = self.torch
        p = c.get("rope_parameters") or dict(c.get("rope_scaling") or {}, rope_theta=c.get("rope_theta", 10000.0))
        f = 1 / p.get("rope_theta", 10000.0) ** (torch.arange(0, self.size, 2).float() / self.size)
        kind = p.get("rope_type", p.get("type", "default"))
        if kind == "default":
            return f
        if kind != "llama3":
            sys.exit("this program does not know rope of type %r" % kind)
        old, low, high = p["original_max_position_embeddings"], p["low_freq_factor"], p["high_freq_factor"]
        length = 2 * math.pi / f
        smooth = ((old / length - low) / (high - low)).clamp(0, 1)
        return (1 - smooth) * f / p["factor"] + smooth * f

    def norm(self, x, name):
        return x * self.torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.w[name]

    def rotate(self, x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + self.torch.cat((-b, a), -1) * sin

    def forward(self, ids, cache):
        """The logits after the last of ids; cache grows by them."""
        torch, w = self.torch, self.w
        past, n = (cache[0][0].shape[1] if cache[0] else 0), len(ids)
        angle = torch.outer(torch.arange(past, past + n).float(), self.frequencies)
        cos, sin = (torch.cat((t, t), -1) for t in (angle.cos(), angle.sin()))
        x = w["model.embed_tokens.weight"][torch.tensor(ids)]
        for i in range(self.layers):
            at = "model.layers.%d." % i
            h = self.norm(x, at + "input_layernorm.weight")
            q, k, v = ((h @ w[at + "self_attn.%s_proj.weight" % p].T).view(n, -1, self.size).transpose(0, 1) for p in "qkv")
            q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
            if cache[i]:
                k, v = torch.cat((cache[i][0], k), 1), torch.cat((cache[i][1], v), 1)
            cache[i] = (k, v)
            k, v = (t.repeat_interleave(self.heads // self.kv, 0) for t in (k, v))
            o = self.attend(q, k, v, is_causal=n > 1)  # one token sees all that is there
            x = x + o.transpose(0, 1).reshape(n, -1) @ w[at + "self_attn.o_proj.weight"].T
            h = self.norm(x, at + "post_attention_layernorm.weight")
            h = self.silu(h @ w[at + "mlp.gate_proj.weight"].T) * (h @ w[at + "mlp.up_proj.weight"].T)
            x = x + h @ w[at + "mlp.down_proj.weight"].T
        return self.norm(x[-1], "model.norm.weight") @ w["lm_head.weight"].T


class Engine:
    def __init__(self, model, threads, seed):
        # Only now: a job of another format is refused before torch is loaded.
        import torch
        from safetensors.torch import load_file
        from tokenizers import Tokenizer

        torch.set_num_threads(threads)
        torch.manual_seed(seed)
        self.torch = torch
        self.words = Tokenizer.from_file(os.path.join(model, "tokenizer.json"))
        self.model = Llama(model, torch, load_file)

    def generate(self, prompt, max_tokens, temperature, ignore_eos):
        """Yields the tokens of an answer, each when it is there."""
        torch = self.torch
        ids, cache = self.words.encode(prompt).ids, [None] * self.model.layers
        for _ in range(max_tokens):
            with torch.inference_mode():
                logits = self.model.forward(ids, cache)
                if temperature:
                    token = torch.multinomial(torch.softmax(logits / temperature, -1), 1).item()
                else:
                    token = logits.argmax(-1).item()
            if token in self.model.eos and not ignore_eos:
                return
            ids = [token]
            yield self.words.decode(ids)


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
