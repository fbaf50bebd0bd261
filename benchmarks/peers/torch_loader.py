#!/usr/bin/python3
"""Milliseconds of a batch of PyTorch's DataLoader with transforms of torchvision.

    torch_loader.py small|large WORKERS SECONDS

The cases are those of loader_speed.cc, on tensors of bytes. Prints {"ms": mean}.
"""
import json
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

# case -> (side of a row, rows, batch, first transform)
CASES = {
    "small": (32, 4096, 128, lambda: transforms.RandomCrop(32, padding=4)),
    "large": (256, 256, 32, lambda: transforms.RandomResizedCrop(224)),
}


class Images(Dataset):
    def __init__(self, side, rows, first):
        self.rows = torch.randint(0, 256, (rows, 3, side, side), dtype=torch.uint8)
        self.transform = transforms.Compose([
            first, transforms.RandomHorizontalFlip(),
            transforms.ConvertImageDtype(torch.float32),
            transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.transform(self.rows[index])


def batches(loader):
    """Yields batches of one epoch after another."""
    while True:
        yield from loader


def main():
    case, workers, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    side, rows, batch, first = CASES[case]
    loader = DataLoader(Images(side, rows, first()), batch_size=batch, shuffle=True,
                        num_workers=workers, persistent_workers=workers > 0,
                        drop_last=True)
    made = batches(loader)
    for _ in range(4 * (workers + 1)):
        next(made)
    count = 0
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        next(made)
        count += 1
    print(json.dumps({"ms": 1000 * (time.perf_counter() - begin) / count}))


if __name__ == "__main__":
    main()
