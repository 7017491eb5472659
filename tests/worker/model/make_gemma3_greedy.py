"""Makes tests/data/reference/gemma3_greedy.jsonl: what Gemma 3 270M (Q4_K_M) answers in float32.

    python tests/worker/model/make_gemma3_greedy.py MODEL.gguf tests/data/reference/gemma3_greedy.jsonl

Needs torch, transformers, gguf, sentencepiece and Debian's /usr/share/common-licenses. The file's tensors are
dequantised by gguf-py and given to transformers' Gemma3ForCausalLM (norm weights less the 1 that the converter
added). Per line:
    name, prompt_ids   BOS first
    output_ids         greedy, EOS does not stop it, decoded with a cache
    margins            per output token, best logit less the second, from one pass over the whole sequence without a
                       cache, whose argmax is the output token at every step
--check compares with a graph written from llama.cpp's build_gemma3 in NumPy, in double precision.
"""
import argparse
import json
import pathlib
import sys

import gguf
import numpy as np
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scheduler/text"))
from gemma_pieces import sentencepiece_of  # noqa: E402

SHORT_TOKENS, LONG_TOKENS = 32, 24
LICENSES = pathlib.Path("/usr/share/common-licenses")
SHORT = {
    "capital": "The capital of France is",
    "count": "one, two, three, four, five, six,",
    "code": "def fibonacci(n):\n    if n < 2:\n        return n\n    return",
    "list": "Ingredients:\n\n- 2 cups of flour\n- 1 cup of sugar\n-",
    "german": "Die Hauptstadt von Deutschland ist",
    "japanese": "\u65e5\u672c\u306e\u9996\u90fd\u306f",
    "emoji": "I love pizza \U0001f355 and ice cream \U0001f366. My favourite",
    "dialogue": "\"Where are you going?\" asked the boy.\n\"To the",
    "math": "2 + 2 = 4\n3 + 3 = 6\n4 + 4 =",
    "json": "{\"name\": \"Alice\", \"age\": 30, \"city\":",
    "one-word": "Once",
    "turn": "<start_of_turn>user\nName three colours.<end_of_turn>\n<start_of_turn>model\n",
}
# name -> (license, first character, tokens): below, at, and beyond the window of 512 positions
CUTS = {
    "window-minus": ("GPL-3", 1000, 500),
    "window-exact": ("GPL-3", 3000, 512),
    "window-plus": ("Apache-2.0", 0, 700),
    "long-1": ("GPL-3", 0, 1100),
    "long-2": ("GPL-3", 0, 1300),      # its first 1,100 tokens are those of long-1
    "long-3": ("LGPL-2.1", 5000, 1200),
    "long-4": ("GFDL-1.3", 8000, 1553),
    "long-5": ("MPL-2.0", 0, 2048),
}


def config_of(reader):
    def value(key):
        return reader.fields[f"gemma3.{key}"].contents()

    layers = value("block_count")
    return Gemma3TextConfig(
        vocab_size=len(reader.fields["tokenizer.ggml.tokens"].data), hidden_size=value("embedding_length"),
        intermediate_size=value("feed_forward_length"), num_hidden_layers=layers,
        num_attention_heads=value("attention.head_count"), num_key_value_heads=value("attention.head_count_kv"),
        head_dim=value("attention.key_length"), max_position_embeddings=value("context_length"),
        rms_norm_eps=float(value("attention.layer_norm_rms_epsilon")), sliding_window=value("attention.sliding_window"),
        query_pre_attn_scalar=value("attention.key_length"), tie_word_embeddings=True,
        layer_types=["full_attention" if (i + 1) % 6 == 0 else "sliding_attention" for i in range(layers)],
        rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": float(value("rope.freq_base"))},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})


NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
         "attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm",
         "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}


def weights_of(reader):
    """name in the GGUF file, without .weight -> float32 array [rows, cols] or [cols]"""
    return {t.name.removesuffix(".weight"): gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
            for t in reader.tensors}


def model_of(reader, weights):
    state = {}
    for name, array in weights.items():
        if name == "token_embd":
            new = "model.embed_tokens.weight"
        elif name == "output_norm":
            new = "model.norm.weight"
        else:
            _, layer, last = name.split(".")
            new = f"model.layers.{layer}.{NAMES[last]}.weight"
        state[new] = torch.from_numpy(array - 1 if name.endswith("_norm") else array)
    with torch.device("meta"):
        model = Gemma3ForCausalLM._from_config(config_of(reader), attn_implementation="eager")
    model = model.to_empty(device="cpu")
    fresh = type(model.model.rotary_emb)(model.config)  # buffers that a state does not hold
    model.model.rotary_emb = fresh
    model.model.embed_tokens.embed_scale = torch.tensor(model.config.hidden_size ** 0.5)
    missing = model.load_state_dict(state, strict=False, assign=True)
    assert missing.missing_keys in ([], ["lm_head.weight"]) and not missing.unexpected_keys, missing
    model.tie_weights()
    return model.eval()


@torch.no_grad()
def greedy(model, ids, steps):
    out, past, feed = [], None, torch.tensor([ids])
    for _ in range(steps):
        answer = model(feed, past_key_values=past, use_cache=True, logits_to_keep=1)
        past = answer.past_key_values
        out.append(int(answer.logits[0, -1].argmax()))
        feed = torch.tensor([[out[-1]]])
    whole = model(torch.tensor([ids + out[:-1]]), use_cache=False, logits_to_keep=steps).logits[0]
    best = whole.topk(2, dim=-1)
    assert best.indices[:, 0].tolist() == out, "with and without a cache differ"
    return out, [round(float(a - b), 5) for a, b in best.values]


def numpy_logits(reader, weights, ids):
    """Of the last position, in float64; norm weights as the file has them."""
    config = config_of(reader)
    heads, kv, dim, window = (config.num_attention_heads, config.num_key_value_heads, config.head_dim,
                              config.sliding_window)
    w = {name: array.astype(np.float64) for name, array in weights.items() if name != "token_embd"}

    def norm(x, name):
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + config.rms_norm_eps) * w[name]

    def rope(x, theta):  # [tokens, heads, dim]
        angle = np.arange(len(ids))[:, None] * theta ** (-np.arange(0, dim, 2) / dim)
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        a, b = x[..., :dim // 2], x[..., dim // 2:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    at = np.arange(len(ids))
    h = weights["token_embd"][ids].astype(np.float64) * np.float32(np.sqrt(np.float32(config.hidden_size)))
    for layer in range(config.num_hidden_layers):
        p = f"blk.{layer}."
        is_global = layer % 6 == 5
        theta = float(reader.fields["gemma3.rope.freq_base"].contents()) if is_global else 10000.0
        x = norm(h, p + "attn_norm")
        q = rope(norm((x @ w[p + "attn_q"].T).reshape(-1, heads, dim), p + "attn_q_norm"), theta)
        k = rope(norm((x @ w[p + "attn_k"].T).reshape(-1, kv, dim), p + "attn_k_norm"), theta)
        v = (x @ w[p + "attn_v"].T).reshape(-1, kv, dim)
        seen = at[None, :] <= at[:, None]
        if not is_global:
            seen &= at[None, :] > at[:, None] - window
        out = np.empty_like(q)
        for head in range(heads):
            s = q[:, head] @ k[:, head * kv // heads].T / np.sqrt(dim)
            s = np.where(seen, s, -np.inf)
            s = np.exp(s - s.max(-1, keepdims=True))
            out[:, head] = s / s.sum(-1, keepdims=True) @ v[:, head * kv // heads]
        h = h + norm(out.reshape(len(ids), -1) @ w[p + "attn_output"].T, p + "post_attention_norm")
        x = norm(h, p + "ffn_norm")
        gate = x @ w[p + "ffn_gate"].T
        gate = 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate ** 3)))
        h = h + norm((gate * (x @ w[p + "ffn_up"].T)) @ w[p + "ffn_down"].T, p + "post_ffw_norm")
    return weights["token_embd"].astype(np.float64) @ norm(h[-1], "output_norm")


def prompts(encode):
    for name, text in SHORT.items():
        yield name, encode(text), SHORT_TOKENS
    for name, (license_name, begin, length) in CUTS.items():
        text = (LICENSES / license_name).read_text()[begin:]
        yield name, encode(text)[:length], LONG_TOKENS


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("output")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    reader = gguf.GGUFReader(arguments.model)
    weights = weights_of(reader)
    model = model_of(reader, weights)
    processor = sentencepiece_of(reader)
    bos = reader.fields["tokenizer.ggml.bos_token_id"].contents()
    if arguments.check:
        for name, ids, _ in prompts(lambda text: [bos] + processor.encode(text)):
            if name not in ("capital", "japanese", "window-plus", "long-1"):
                continue
            with torch.no_grad():
                a = model(torch.tensor([ids]), use_cache=False, logits_to_keep=1).logits[0, -1].double().numpy()
            b = numpy_logits(reader, weights, ids)
            print(f"{name}: {len(ids)} tokens, max difference {np.abs(a - b).max():.2e} of {np.abs(b).max():.1f}, "
                  f"argmax {a.argmax()} {b.argmax()}", flush=True)
        return
    with open(arguments.output, "w", encoding="ascii") as lines:
        for name, ids, steps in prompts(lambda text: [bos] + processor.encode(text)):
            out, margins = greedy(model, ids, steps)
            lines.write(json.dumps({"name": name, "prompt_ids": ids, "output_ids": out, "margins": margins}) + "\n")
            print(f"{name}: {len(ids)} tokens, least margin {min(margins)}: {processor.decode(out)!r}", flush=True)


if __name__ == "__main__":
    main()
