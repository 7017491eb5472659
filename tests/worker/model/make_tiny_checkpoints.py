"""Makes the checkpoints of tests/data/tiny: one random model per family, with the logits that
transformers computes for it in float32. The results are committed, so that tests need no torch.

    python tests/worker/model/make_tiny_checkpoints.py tests/data/tiny [NAME...]

Needs torch, transformers and tokenizers. Each folder is what transformers saves, plus
    prompts.json   lists of token ids
    logits.f32     little-endian float32 [tokens of all prompts, vocab], in the order of the prompts
"""
import json
import pathlib
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

VOCAB = 256
PROMPT_LENGTHS = (1, 9, 50)
SIZES = dict(vocab_size=VOCAB, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             head_dim=16, intermediate_size=96, max_position_embeddings=256, rms_norm_eps=1e-5,
             bos_token_id=0, eos_token_id=1, pad_token_id=None, initializer_range=0.2)

GEMMA = {k: v for k, v in SIZES.items() if k != "pad_token_id"} | dict(
    num_hidden_layers=3, num_key_value_heads=1, head_dim=24, sliding_window=16, pad_token_id=0)
LOCAL_LOCAL_GLOBAL = ["sliding_attention", "sliding_attention", "full_attention"]


def default_rope(theta=10000.0, **scaling):
    return {"rope_type": "default", "rope_theta": theta, **scaling}


# name -> (config, model class, stored dtype, whether config.json has the rope keys of transformers 4)
CASES = {
    "llama-tied-f32": (LlamaConfig(**SIZES | dict(intermediate_size=64), tie_word_embeddings=True,
                                   rope_parameters=default_rope()), LlamaForCausalLM, torch.float32, False),
    "llama3-scaling": (LlamaConfig(**SIZES, tie_word_embeddings=False, rope_parameters=default_rope(
        500000.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=32)), LlamaForCausalLM, torch.bfloat16, True),
    "llama-yarn-biases": (LlamaConfig(**SIZES, tie_word_embeddings=True, attention_bias=True, mlp_bias=True,
                                      rope_parameters=default_rope(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=64)), LlamaForCausalLM, torch.bfloat16, True),
    "llama-linear-f16": (LlamaConfig(**SIZES, tie_word_embeddings=True, rope_parameters=default_rope(
        rope_type="linear", factor=2.0)), LlamaForCausalLM, torch.float16, False),
    "mistral-window": (MistralConfig(**SIZES, tie_word_embeddings=False, sliding_window=16,
                                     rope_parameters=default_rope()), MistralForCausalLM, torch.bfloat16, True),
    "qwen2": (Qwen2Config(**{k: v for k, v in SIZES.items() if k != "head_dim"}, tie_word_embeddings=True,
                          use_sliding_window=False, rope_parameters=default_rope(1000000.0)),
              Qwen2ForCausalLM, torch.bfloat16, True),
    "qwen3": (Qwen3Config(**SIZES | dict(head_dim=32), tie_word_embeddings=True, rope_parameters=default_rope(1000000.0)),
              Qwen3ForCausalLM, torch.bfloat16, False),
    "gemma2-softcaps": (Gemma2Config(**GEMMA, query_pre_attn_scalar=20, layer_types=LOCAL_LOCAL_GLOBAL,
                                     attn_logit_softcapping=2.0, final_logit_softcapping=4.0,
                                     rope_parameters=default_rope(1000.0)), Gemma2ForCausalLM, torch.bfloat16, True),
    # Two layers that see 16 positions, then one that sees all, rotated and scaled otherwise.
    "gemma3-windows": (Gemma3TextConfig(**GEMMA, query_pre_attn_scalar=20, layer_types=LOCAL_LOCAL_GLOBAL,
                                        rope_parameters={
        "sliding_attention": default_rope(1000.0),
        "full_attention": default_rope(100000.0, rope_type="linear", factor=2.0)}),
        Gemma3ForCausalLM, torch.bfloat16, False),
}


def byte_level_tokenizer():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={text: i for i, text in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def use_old_rope_keys(path):
    """config.json as transformers 4 wrote it, which is what most published checkpoints have."""
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    path.write_text(json.dumps(config, indent=2) + "\n")


def make(name, folder):
    config, model_class, dtype, old_keys = CASES[name]
    torch.manual_seed(sum(name.encode()))
    model = model_class._from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if "norm" in parameter_name:
                parameter.uniform_(0.5, 1.5)
                if name.startswith("gemma"):
                    parameter.sub_(1)  # which its norms add
            elif parameter_name.endswith("bias"):
                parameter.normal_(0, 0.2)
            parameter.copy_(parameter.to(dtype).float())  # what the file can hold
    prompts = [torch.randint(0, VOCAB, (length,)).tolist() for length in PROMPT_LENGTHS]
    with torch.no_grad():
        logits = torch.cat([model(torch.tensor([ids]), use_cache=False).logits[0].float() for ids in prompts])
    folder.mkdir(parents=True, exist_ok=True)
    model.to(dtype).save_pretrained(folder)
    byte_level_tokenizer().save(str(folder / "tokenizer.json"))
    if old_keys:
        use_old_rope_keys(folder / "config.json")
    (folder / "prompts.json").write_text(json.dumps(prompts) + "\n")
    (folder / "logits.f32").write_bytes(logits.numpy().astype("<f4").tobytes())
    size = (folder / "model.safetensors").stat().st_size
    print(f"{name}: {size} bytes, |logits| up to {logits.abs().max():.2f}")


if __name__ == "__main__":
    for case in sys.argv[2:] or CASES:
        make(case, pathlib.Path(sys.argv[1]) / case)
