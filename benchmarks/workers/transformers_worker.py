"""Transformers' generate: `transformers_worker.py MODEL`. In bulk the lines are sorted by length, 64 to a batch."""

import sys

import torch
from serve import serve
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

BATCH = 64
model = AutoModelForSeq2SeqLM.from_pretrained(sys.argv[1]).eval()
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])


@torch.inference_mode()
def translate(texts, beam):
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    found = [""] * len(texts)
    for start in range(0, len(order), BATCH):
        batch = order[start : start + BATCH]
        inputs = tokenizer([texts[i] for i in batch], return_tensors="pt", padding=True, return_token_type_ids=False)
        outputs = model.generate(**inputs, num_beams=beam, max_length=256)
        for i, text in zip(batch, tokenizer.batch_decode(outputs, skip_special_tokens=True), strict=True):
            found[i] = text
    return found


serve(translate)
