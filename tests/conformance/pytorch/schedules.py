"""Prints what torch.optim.lr_scheduler gives for the schedules of
tests/engine/model/lr_schedule_test.cc and evaluation_history_test.cc."""
import torch
from torch.optim import lr_scheduler

BASE = 0.4
CASES = {
    "step": (lambda o: lr_scheduler.StepLR(o, 3, 0.5), 8),
    "multi_step": (lambda o: lr_scheduler.MultiStepLR(o, [2, 5], 0.3), 8),
    "constant": (lr_scheduler.ConstantLR, 8),
    "linear": (lr_scheduler.LinearLR, 8),
    "linear, falling": (lambda o: lr_scheduler.LinearLR(o, 0.5, 0.25, 4), 8),
    "exponential": (lambda o: lr_scheduler.ExponentialLR(o, 0.9), 8),
    "cosine": (lambda o: lr_scheduler.CosineAnnealingLR(o, 5, 0.02), 8),
    "cosine, all steps": (lambda o: lr_scheduler.CosineAnnealingLR(o, 8), 8),
    "cosine_restarts, growing": (
        lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 2, 0.01), 12),
    "cosine_restarts": (
        lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3), 8),
    "polynomial": (lambda o: lr_scheduler.PolynomialLR(o, 6, 2.0), 8),
    "one_cycle": (
        lambda o: lr_scheduler.OneCycleLR(o, 0.8, total_steps=11), 10),
    "cyclic": (
        lambda o: lr_scheduler.CyclicLR(o, 0.1, 0.5, 3, 2,
                                        cycle_momentum=False), 10),
}
LOSSES = [1.0, 0.995, 0.99, 0.98, 0.98, 0.98, 0.98, 0.98, 0.98, 0.5, 0.6, 0.6,
          0.6, 0.6, 0.6, 0.6]


def make_optimizer():
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=BASE)


def main():
    for name, (make, steps) in CASES.items():
        optimizer = make_optimizer()
        schedule = make(optimizer)
        rates = []
        for _ in range(steps):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        print(name, rates)
    optimizer = make_optimizer()
    schedule = lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=0.5, patience=1, threshold=0.01, cooldown=1,
        min_lr=0.0)
    rates = []
    for loss in LOSSES:
        schedule.step(loss)
        rates.append(optimizer.param_groups[0]["lr"])
    print("plateau", rates)


if __name__ == "__main__":
    main()
