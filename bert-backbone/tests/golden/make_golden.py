"""Makes the golden values of tests/parity.rs with Hugging Face transformers.

    pip install torch==2.9.0 transformers==4.57.6
    cargo run -p bert-backbone --example random_checkpoint -- tiny /tmp/tiny
    cargo run -p bert-backbone --example random_checkpoint -- micro /tmp/micro
    cargo run --release -- fetch minilm-l6 --cache-dir /tmp/cache
    python make_golden.py /tmp/tiny tiny.safetensors
    python make_golden.py /tmp/cache/minilm-l6 minilm-l6.safetensors
    python make_golden.py --pickle /tmp/micro micro.bin

For every input of inputs.json: `input_ids.N`, `token_type_ids.N`, `rows.N` (all tokens, or every 16th of a long
text) and `last_hidden_state.N` of those rows; `mlm.N` where the checkpoint has a masked-LM head and the text a mask.
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, BertForMaskedLM, BertModel


def encode(tokenizer, entry):
    if "ids" in entry:
        return {
            "input_ids": torch.tensor([[tokenizer.convert_tokens_to_ids(entry["ids"])]]),
            "token_type_ids": torch.zeros(1, 1, dtype=torch.long),
        }
    text = entry["repeat"] * entry["times"] if "repeat" in entry else entry["text"]
    # Lists: given as plain strings, an empty second text would be taken for none.
    pairs = [entry["pair"] * entry.get("pair_times", 1)] if "pair" in entry else None
    return tokenizer(
        [text], pairs, truncation="longest_first", max_length=entry.get("max_length", 512), return_tensors="pt"
    )


def golden(folder, out):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    has_head = any(name.startswith("cls.") for name in load_file(f"{folder}/model.safetensors"))
    head_model = BertForMaskedLM.from_pretrained(folder, attn_implementation="eager").eval() if has_head else None
    # The head's model has no pooler; the bare model keeps it.
    bare = BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    tensors = {}
    inputs = json.loads((pathlib.Path(__file__).parent / "inputs.json").read_text())
    for number, entry in enumerate(inputs):
        encoded = encode(tokenizer, entry)
        ids, types = encoded["input_ids"], encoded["token_type_ids"]
        with torch.no_grad():
            result = bare(input_ids=ids, token_type_ids=types)
        length = ids.shape[1]
        rows = torch.arange(0, length, 16 if length > 128 else 1)
        tensors[f"input_ids.{number}"] = ids[0]
        tensors[f"token_type_ids.{number}"] = types[0]
        tensors[f"rows.{number}"] = rows
        tensors[f"last_hidden_state.{number}"] = result.last_hidden_state[0, rows].contiguous()
        tensors[f"pooled.{number}"] = result.pooler_output[0].contiguous()
        masks = (ids[0] == tokenizer.mask_token_id).nonzero()[:, 0]
        if head_model is not None and len(masks) > 0:
            with torch.no_grad():
                logits = head_model(input_ids=ids, token_type_ids=types).logits
            tensors[f"mlm.{number}"] = logits[0, masks].contiguous()
    save_file(tensors, out)
    print(f"{len(inputs)} inputs written to {out}")


if __name__ == "__main__":
    if sys.argv[1] == "--pickle":
        state = load_file(f"{sys.argv[2]}/model.safetensors")
        # As older checkpoints have it: LayerNorm's gamma and beta, and a buffer.
        state = {
            k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v
            for k, v in state.items()
        }
        state["bert.embeddings.position_ids"] = torch.arange(16).unsqueeze(0)
        torch.save(state, sys.argv[3])
    else:
        golden(sys.argv[1], sys.argv[2])
