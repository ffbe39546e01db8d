"""The other side: saves adapters with Python's libraries, or loads them, and prints logits as JSON.

    twin.py save BACKBONE FOLDER TEXTS    makes one of each kind with random weights, in FOLDER/NAME
    twin.py plain BACKBONE FOLDER TEXTS   takes BACKBONE for a whole classifier
    twin.py load BACKBONE FOLDER TEXTS    loads every FOLDER/NAME that is there
    twin.py train BACKBONE FOLDER STEPS   trains every FOLDER/NAME and saves it in FOLDER/NAME again; prints the losses
    twin.py features BACKBONE FOLDER X    takes every FOLDER/POOL.safetensors for a head on features: logits of texts, or losses of steps
"""

import json
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

import torch
from adapters import BertAdapterModel, DoubleSeqBnConfig, IA3Config, LoRAConfig, ParBnConfig, SeqBnConfig
from peft import IA3Config as PeftIA3
from peft import LoraConfig as PeftLora
from peft import PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import BertForSequenceClassification, BertModel, BertTokenizerFast
from transformers.modeling_outputs import SequenceClassifierOutput

command, backbone, folder, texts = sys.argv[1:5]
folder, texts = Path(folder), json.loads(Path(texts).read_text())
tokenizer = BertTokenizerFast.from_pretrained(backbone)
LABELS = {0: "no", 1: "perhaps", 2: "yes"}

HUB = {
    "houlsby": (DoubleSeqBnConfig(), dict(layers=1, activation_function=None)),
    "houlsby-gelu": (DoubleSeqBnConfig(non_linearity="gelu", reduction_factor=5.3), dict(layers=2, activation_function="tanh")),
    "pfeiffer": (SeqBnConfig(), dict(layers=1, activation_function=None)),
    "pfeiffer-map": (
        SeqBnConfig(reduction_factor={"0": 4, "default": 8}, leave_out=[1], scaling="learned", non_linearity="tanh"),
        dict(layers=1, activation_function=None, use_pooler=True),
    ),
    "parallel": (ParBnConfig(), dict(layers=1, activation_function=None)),
    "lora": (LoRAConfig(alpha=16), dict(layers=1, activation_function=None)),
    "lora-everywhere": (
        LoRAConfig(r=3, attn_matrices=["q", "k", "v"], intermediate_lora=True, output_lora=True),
        dict(layers=1, activation_function=None),
    ),
    "ia3": (IA3Config(), dict(layers=1, activation_function=None)),
}
PEFT = {
    "peft-lora": PeftLora(task_type="SEQ_CLS", r=4, lora_alpha=8, target_modules=["query", "value"]),
    "peft-rslora": PeftLora(
        task_type="SEQ_CLS", r=4, target_modules=["query", "key", "value", "intermediate.dense", "output.dense"], use_rslora=True
    ),
    "peft-ia3": PeftIA3(task_type="SEQ_CLS"),
}


class Features(torch.nn.Module):
    """A small network on what a frozen BERT says; its matrices are [in, out]."""

    def __init__(self, pool, tensors):
        super().__init__()
        self.bert = BertModel.from_pretrained(backbone).requires_grad_(False)
        self.pool = pool
        self.own = torch.nn.ParameterDict({name.replace(".", "_"): tensor for name, tensor in tensors.items()})

    def forward(self, input_ids, attention_mask, token_type_ids):
        said = self.bert(input_ids, attention_mask, token_type_ids, output_hidden_states=True)
        mask = attention_mask.unsqueeze(-1).float()
        mean = lambda hidden: (hidden * mask).sum(1) / mask.sum(1)
        if self.pool == "cls":
            rows = said.last_hidden_state[:, 0]
        elif self.pool == "mean":
            rows = mean(said.last_hidden_state)
        else:
            shares = torch.softmax(self.own["head_inner_0_weight"][:, 0], 0)
            rows = sum(share * mean(hidden) for share, hidden in zip(shares, said.hidden_states))
            rows = rows * (1 + self.own["head_inner_0_bias"])
        inner = "head_inner_1" if self.pool == "mix" else "head_inner_0"
        rows = torch.tanh(rows @ self.own[f"{inner}_weight"] + self.own[f"{inner}_bias"])
        return SequenceClassifierOutput(logits=rows @ self.own["head_weight"] + self.own["head_bias"])


def disturb(model, is_own):
    """Random values wherever an initialisation would hide what a tensor does."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if is_own(name):
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))


def logits(model):
    model.eval()
    batch = tokenizer(texts, padding=True, truncation=True, max_length=64, return_tensors="pt")
    with torch.no_grad():
        return model(**batch).logits.tolist()


def peft_base(steps=None):
    torch.manual_seed(0)
    outputs = steps["labels"] if isinstance(steps, dict) else 3
    return BertForSequenceClassification.from_pretrained(backbone, num_labels=outputs)


def train(model, steps):
    """A step for each batch, at its rate; the losses."""
    model.train()
    own = [parameter for parameter in model.parameters() if parameter.requires_grad]
    adam = torch.optim.Adam(own, lr=1.0, betas=(0.9, 0.999), eps=steps["epsilon"])
    losses = []
    for batch, rate in zip(steps["batches"], steps["rates"]):
        firsts, seconds, labels = zip(*batch)
        inputs = tokenizer(list(firsts), list(seconds), padding=True, truncation=True, max_length=64, return_tensors="pt")
        loss = torch.nn.functional.cross_entropy(model(**inputs).logits, torch.tensor(labels))
        adam.zero_grad()
        loss.backward()
        for group in adam.param_groups:
            group["lr"] = rate
        adam.step()
        losses.append(loss.item())
    return losses


said = {}
if command == "save":
    for name, (config, head) in HUB.items():
        model = BertAdapterModel.from_pretrained(backbone)
        model.add_adapter("own", config=config)
        model.add_classification_head("own", num_labels=3, id2label=LABELS, **head)
        model.set_active_adapters("own")
        disturb(model, lambda name: ".own." in name)
        # Both kinds of files are read.
        safetensors = not name.startswith("houlsby")
        model.save_adapter(str(folder / name), "own", with_head=True, use_safetensors=safetensors)
        said[name] = logits(model)
    for name, config in PEFT.items():
        model = get_peft_model(peft_base(), config)
        disturb(model, lambda name: "lora_" in name or "ia3_" in name or "classifier" in name)
        model.save_pretrained(str(folder / name))
        said[name] = logits(model)
elif command == "features":
    for place in sorted(folder.glob("*.safetensors")):
        tensors = load_file(place)
        model = Features(place.stem, tensors)
        if isinstance(texts, dict):
            said[place.stem] = train(model, texts)
            save_file({name: model.own[name.replace(".", "_")].data.contiguous() for name in tensors}, place)
        else:
            said[place.stem] = logits(model)
elif command == "plain":
    said["plain"] = logits(BertForSequenceClassification.from_pretrained(backbone))
else:
    for place in sorted(folder.iterdir()):
        config = json.loads((place / "adapter_config.json").read_text())
        is_peft = "peft_type" in config
        if is_peft:
            model = PeftModel.from_pretrained(peft_base(texts), str(place), is_trainable=command == "train")
        else:
            model = BertAdapterModel.from_pretrained(backbone)
            name = model.load_adapter(str(place), use_safetensors=True)
            model.set_active_adapters(name)
        if command == "load":
            said[place.name] = logits(model)
            continue
        if not is_peft:
            model.train_adapter(name)
        said[place.name] = train(model, texts)
        if is_peft:
            model.save_pretrained(str(place))
        else:
            model.save_adapter(str(place), name, with_head=True, use_safetensors=True)
print(json.dumps(said))
