"""Writes seeds/: small valid files, by other programs than the readers' own tests use.

Needs numpy, gguf and safetensors (gguf 0.19.0 and safetensors 0.8.0 wrote the committed files).
"""
import json
import pathlib

import gguf
import numpy as np
from safetensors.numpy import save_file

SEEDS = pathlib.Path(__file__).parent / "seeds"
Q = gguf.GGMLQuantizationType
RNG = np.random.default_rng(7)


def blocks(rows, cols, kind):
    """Random blocks of a quantised tensor, with small finite scales."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    data = RNG.integers(0, 256, (rows, cols // elements, size), dtype=np.uint8)
    half = np.array([0.01], dtype=np.float16).view(np.uint8)
    offsets = {Q.Q6_K: [208]}.get(kind, [0] if kind in (Q.Q8_0, Q.Q4_0, Q.Q5_0) else [0, 2])
    for offset in offsets:
        data[:, :, offset:offset + 2] = half
    return data.reshape(rows, -1)


def add_tokenizer(writer, count):
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    letters = [chr(97 + i) for i in range(count - 3)]
    writer.add_token_list(["<|end|>", "<|start|>"] + letters + ["ab"])
    writer.add_token_types([3, 4] + [1] * (count - 2))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template("{{ messages }}")


def write_model(name, arch, hidden, kinds, heads, kv_heads, head_dim, mlp, vocab, extra=()):
    writer = gguf.GGUFWriter(str(SEEDS / "gguf" / name), arch)
    writer.add_name("seed")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(mlp)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(head_dim)
    add_tokenizer(writer, vocab)
    kinds = list(kinds)

    def matrix(tensor, rows, cols):
        kind = kinds.pop(0) if kinds and cols % gguf.GGML_QUANT_SIZES[kinds[0]][0] == 0 else Q.F32
        if kind in (Q.F32, Q.F16):
            data = RNG.normal(size=(rows, cols)).astype(np.float32 if kind == Q.F32 else np.float16)
            writer.add_tensor(tensor, data)
        else:
            writer.add_tensor(tensor, blocks(rows, cols, kind), raw_dtype=kind)

    def vector(tensor, size):
        writer.add_tensor(tensor, np.ones(size, np.float32))

    matrix("token_embd.weight", vocab, hidden)
    vector("output_norm.weight", hidden)
    vector("blk.0.attn_norm.weight", hidden)
    matrix("blk.0.attn_q.weight", heads * head_dim, hidden)
    matrix("blk.0.attn_k.weight", kv_heads * head_dim, hidden)
    matrix("blk.0.attn_v.weight", kv_heads * head_dim, hidden)
    matrix("blk.0.attn_output.weight", hidden, heads * head_dim)
    vector("blk.0.ffn_norm.weight", hidden)
    matrix("blk.0.ffn_gate.weight", mlp, hidden)
    matrix("blk.0.ffn_up.weight", mlp, hidden)
    matrix("blk.0.ffn_down.weight", hidden, mlp)
    for tensor, size in extra:
        vector(tensor, size)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


HF_TENSORS = [("model.embed_tokens", 12, 8), ("model.norm", 8, 0), ("lm_head", 12, 8),
              ("model.layers.0.input_layernorm", 8, 0), ("model.layers.0.self_attn.q_proj", 8, 8),
              ("model.layers.0.mlp.down_proj", 8, 12)]

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 1,
    "hidden_size": 8, "intermediate_size": 12, "num_attention_heads": 2, "num_key_value_heads": 1,
    "vocab_size": 12, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu",
    "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": [0, 1],
    "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
                        "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                        "original_max_position_embeddings": 32}}

TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None,
    "added_tokens": [
        {"id": 0, "content": "<|end|>", "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}]},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": True},
        {"type": "Split", "pattern": {"Regex": "\\p{L}+| \\s"}, "behavior": "Isolated",
         "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
         "use_regex": True}]},
    "post_processor": {"type": "TemplateProcessing",
                       "single": [{"SpecialToken": {"id": "<|end|>", "type_id": 0}},
                                  {"Sequence": {"id": "A", "type_id": 0}}],
                       "pair": [],
                       "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [0],
                                                      "tokens": ["<|end|>"]}}},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False,
              "byte_fallback": False, "ignore_merges": True,
              "vocab": {"<|end|>": 0, "a": 1, "b": 2, "ab": 3, "\u0120": 4},
              "merges": ["a b", ["\u0120", "a"]]}}


def main():
    write_model("llama_32.gguf", "llama", 32,
                [Q.Q8_0, Q.Q4_1, Q.Q4_0, Q.Q5_0, Q.Q5_1, Q.F16, Q.Q8_0], 2, 1, 4, 8, 8)
    write_model("qwen3_256.gguf", "qwen3", 256, [Q.Q4_K, Q.Q5_K, Q.Q6_K, Q.Q4_K, Q.Q6_K, Q.Q5_K],
                2, 1, 2, 4, 8, [("blk.0.attn_q_norm.weight", 2), ("blk.0.attn_k_norm.weight", 2)])
    for dtype in (np.float32, np.float16):
        tensors = {f"{name}.weight": RNG.normal(size=(rows, cols) if cols else rows).astype(dtype)
                   for name, rows, cols in HF_TENSORS}
        save_file(tensors, SEEDS / "safetensors" / f"{np.dtype(dtype).name}.safetensors",
                  metadata={"format": "pt"})
    # The first character says which file of the folder the rest is (checkpoint_fuzz.h).
    texts = {
        "config": ("0", CONFIG),
        "tokenizer": ("1", TOKENIZER),
        "tokenizer_config": ("2", {"bos_token": {"content": "<|end|>"}, "eos_token": "a",
                                   "tokenizer_class": "LlamaTokenizer", "add_bos_token": True,
                                   "chat_template": [{"name": "default", "template": "x"}]}),
        "generation_config": ("3", {"eos_token_id": [1, 2], "bos_token_id": 0}),
        "index": ("4", {"metadata": {"total_size": 8},
                        "weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}),
    }
    for name, (selector, value) in texts.items():
        (SEEDS / "hf" / f"{name}.txt").write_text(selector + json.dumps(value))


main()
