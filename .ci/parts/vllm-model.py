"""A small llama with random weights and a tokenizer of its own: vllm-model.py DIR.

The vocabulary is small and holds every single byte, so that about one token in
three ends inside a character and has no text of its own: what large
vocabularies do seldom, this one does all the time.
"""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CHAT = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)

SPECIAL = ["<s>", "</s>", "<pad>", "<think>", "</think>", "<tool_call>", "</tool_call>"]


def tokenizer():
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    text = [
        "a load generator must not measure itself along with the server " * 40,
        "each token has an arrival of its own, and the kernel knows when it was " * 40,
    ]
    bpe.train_from_iterator(
        text,
        trainers.BpeTrainer(
            vocab_size=1024,
            special_tokens=SPECIAL,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    fast.chat_template = CHAT
    return fast


def main(where):
    words = tokenizer()
    words.save_pretrained(where)
    torch.manual_seed(0)
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(words),
            hidden_size=256,
            intermediate_size=512,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=4096,
            bos_token_id=0,
            eos_token_id=1,
            pad_token_id=2,
        )
    ).save_pretrained(where)


if __name__ == "__main__":
    main(sys.argv[1])
