"""Epochs of training on a task's texts, in random order, word pieces at hand. As `adapter-lab bench epoch`.

The learning rate rises over a tenth of the steps and falls to 0. With --evaluate the validation scores after each epoch
are printed too; that time does not count.
"""

import argparse
import math
import time

import torch
from torch.nn.functional import cross_entropy

import measure
import model
import texts

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
texts.add_options(parser, batch=32)
parser.add_argument("--lr", type=float, default=3e-4, help="the highest learning rate")
parser.add_argument("--epochs", type=int, default=1, help="their median is given")
parser.add_argument("--clip", type=float, default=0.0, help="the largest norm of all gradients; 0 clips nothing")
parser.add_argument("--evaluate", action="store_true")
model.add_options(parser)
measure.add_options(parser)
options = parser.parse_args()
measure.begin(options)

lessons = texts.load(options, "train")
network = model.pretrained(options.backbone, options)
trained = model.trained(network)
adam = torch.optim.Adam(trained, lr=options.lr)
steps = options.epochs * math.ceil(len(lessons) / options.batch)
rising = max(1, steps // 10)
falling = max(1, steps - rising)
schedule = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: min((step + 1) / rising, (steps - step) / falling))


def epoch():
    """Trains on every text once; returns the time and the mean loss."""
    network.train()
    losses = 0.0
    started = time.perf_counter()
    for rows in torch.randperm(len(lessons)).split(options.batch):
        inputs, classes = lessons.batch(rows.tolist(), options.padding)
        loss = cross_entropy(network(**inputs).logits, classes)
        loss.backward()
        if options.clip > 0:
            torch.nn.utils.clip_grad_norm_(trained, options.clip)
        adam.step()
        adam.zero_grad()
        schedule.step()
        losses += loss.item() * len(rows)
    return time.perf_counter() - started, losses / len(lessons)


@torch.inference_mode()
def scores(validation):
    """Accuracy and Matthews' correlation on the validation texts."""
    network.eval()
    counts = torch.zeros(2, 2)  # By class and prediction.
    for rows in torch.arange(len(validation)).split(2 * options.batch):
        inputs, classes = validation.batch(rows.tolist(), options.padding)
        for pair in zip(classes.tolist(), network(**inputs).logits.argmax(-1).tolist()):
            counts[pair] += 1
    (tn, fp), (fn, tp) = counts.tolist()
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    matthews = (tp * tn - fp * fn) / math.sqrt(product) if product else 0.0
    return {"accuracy": (tp + tn) / len(validation), "matthews": matthews}


validation = texts.load(options, "dev") if options.evaluate else None
seconds, results = [], []
for _ in range(options.epochs):
    taken, loss = epoch()
    seconds.append(taken)
    results.append({"loss": loss, **(scores(validation) if validation else {})})
measure.report("epoch", options, seconds, trained=model.count(trained), examples=len(lessons),
               tokens=lessons.tokens(), results=results)
