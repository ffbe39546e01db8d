"""BERT with the paper's adapters and a classifier, by adapter-hub's `adapters`."""

from adapters import BertAdapterModel, DoubleSeqBnConfig

NAME = "task"


def add_options(parser):
    """Options that say what is trained and how attention is computed."""
    parser.add_argument("--tuning", choices=["adapters", "full"], default="adapters")
    parser.add_argument("--adapter-size", type=int, default=64, metavar="M", help="width of the bottleneck")
    parser.add_argument("--attention", choices=["eager", "sdpa"], default="sdpa")


def random(config, options):
    """A network of this shape, with random weights."""
    config._attn_implementation = options.attention
    return prepare(BertAdapterModel(config), options)


def pretrained(folder, options):
    """The network of a folder in Hugging Face layout."""
    return prepare(BertAdapterModel.from_pretrained(folder, attn_implementation=options.attention), options)


def prepare(model, options):
    """Adds a head for two classes that reads [CLS], and adapters after both sub-layers of every layer.

    Adapters and every LayerNorm are trained, or the whole network; the head always, the pooler never: nothing reads it.
    """
    model.add_classification_head(NAME, num_labels=2, layers=1)
    adapted = options.tuning == "adapters"
    if adapted:
        factor = model.config.hidden_size / options.adapter_size
        config = DoubleSeqBnConfig(reduction_factor=factor, non_linearity="gelu", init_weights="houlsby")
        model.add_adapter(NAME, config=config)
        model.set_active_adapters(NAME)
    model.active_head = NAME
    for name, tensor in model.named_parameters():
        tuned = not adapted or ".adapters." in name or "LayerNorm" in name or name.startswith("heads.")
        tensor.requires_grad = tuned and ".pooler." not in name
    return model


def trained(model):
    """The tensors that are trained."""
    return [tensor for tensor in model.parameters() if tensor.requires_grad]


def count(tensors):
    """The number of values in some tensors."""
    return sum(tensor.numel() for tensor in tensors)
