"""Prints one weight over steps of torch.optim's optimizers, as
tests/engine/model/optimizer_options_test.cc expects it. The gradient of step
t at weight p is p - t / 4."""
import torch

RATE = 0.1
STEPS = 4
CASES = {
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=RATE),
    "rmsprop centered": lambda p: torch.optim.RMSprop(
        p, lr=RATE, alpha=0.9, eps=1e-6, weight_decay=0.01, momentum=0.5,
        centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=RATE),
    "adagrad with state": lambda p: torch.optim.Adagrad(
        p, lr=RATE, lr_decay=0.1, weight_decay=0.01,
        initial_accumulator_value=0.25),
    "adamax": lambda p: torch.optim.Adamax(p, lr=RATE),
    "adamax with fields": lambda p: torch.optim.Adamax(
        p, lr=RATE, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=RATE),
    "sgd": lambda p: torch.optim.SGD(p, lr=RATE, momentum=0.9, nesterov=True,
                                     weight_decay=0.01),
}
# The second of two groups: half the rate and a weight decay of its own.
GROUP = {"lr": RATE / 2, "weight_decay": 0.3}
CASES.update({
    "sgd in a group": lambda p: torch.optim.SGD(p, momentum=0.9, **GROUP),
    "adam in a group": lambda p: torch.optim.Adam(p, **GROUP),
    "adamw in a group": lambda p: torch.optim.AdamW(p, **GROUP),
    "rmsprop in a group": lambda p: torch.optim.RMSprop(p, **GROUP),
    "adagrad in a group": lambda p: torch.optim.Adagrad(p, **GROUP),
    "adamax in a group": lambda p: torch.optim.Adamax(p, **GROUP),
})


def lion(rate, decay):
    """Chen et al. 2023, algorithm 2; Lion is not in torch.optim."""
    weight = torch.tensor([1.0, -0.5], dtype=torch.float64)
    moment = torch.zeros(2, dtype=torch.float64)
    for step in range(1, STEPS + 1):
        grad = weight - step / 4
        weight = weight * (1 - rate * decay)
        weight = weight - rate * torch.sign(0.9 * moment + 0.1 * grad)
        moment = 0.99 * moment + 0.01 * grad
    return weight.tolist()


def main():
    for name, make in CASES.items():
        weight = torch.nn.Parameter(
            torch.tensor([1.0, -0.5], dtype=torch.float64))
        optimizer = make([weight])
        for step in range(1, STEPS + 1):
            weight.grad = weight.detach() - step / 4
            optimizer.step()
        print(name, weight.tolist())
    print("lion", lion(RATE, 0.01))
    print("lion in a group", lion(GROUP["lr"], GROUP["weight_decay"]))


if __name__ == "__main__":
    main()
