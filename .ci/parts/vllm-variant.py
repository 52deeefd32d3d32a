"""A model that is not quite another: vllm-variant.py FROM DIR HOW.

What somebody might serve in place of a model, or what happens to one by accident:
  seed       other random weights
  int8       weights rounded to 8 bits, a scale for each row
  int4       weights rounded to 4 bits, a scale for each 128 of a row
  truncated  without its last layer
  noise-X    each weight off by a normal error of X times its matrix's deviation
The weights are written back as they were typed: an engine that keeps them in few
bits computes with these very values.
"""

import shutil
import sys

import torch
from transformers import AutoModelForCausalLM


def rounded(w, bits, group):
    """The weights as a symmetric quantisation leaves them."""
    top = 2 ** (bits - 1) - 1
    rows = w.reshape(-1, min(group, w.shape[-1]))
    scale = rows.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / top
    return (torch.round(rows / scale).clamp(-top, top) * scale).reshape(w.shape)


def change(model, how):
    torch.manual_seed(1)
    if how == "seed":
        return type(model)(model.config)
    if how == "truncated":
        model.model.layers = model.model.layers[:-1]
        model.config.num_hidden_layers -= 1
        if getattr(model.config, "layer_types", None):
            model.config.layer_types = model.config.layer_types[:-1]
        return model
    with torch.no_grad():
        for w in model.parameters():
            if w.dim() != 2:
                continue
            if how == "int8":
                w.copy_(rounded(w, 8, w.shape[-1]))
            elif how == "int4":
                w.copy_(rounded(w, 4, 128))
            elif how.startswith("noise-"):
                w.add_(torch.randn_like(w) * w.std() * float(how[len("noise-") :]))
            else:
                sys.exit("no variant is called " + how)
    return model


def main(source, where, how):
    shutil.copytree(source, where, dirs_exist_ok=True)
    model = AutoModelForCausalLM.from_pretrained(source, torch_dtype=torch.float32)
    change(model, how).save_pretrained(where)


if __name__ == "__main__":
    main(*sys.argv[1:4])
