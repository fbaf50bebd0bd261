"""Prints what torch.nn.functional gives for the losses of
tests/engine/model/losses_test.cc, and their gradients."""
import torch
from torch.nn import functional

SCORES = [[0.5, -1.0, 2.0], [0.0, 0.25, -0.5], [1.5, 1.0, -2.0],
          [-0.75, 0.0, 3.0]]
LABELS = [2, 0, 1, 2]
TARGETS = [[0.0, 1.0, 0.5], [1.0, 0.25, 0.0], [0.5, 0.0, 1.0],
           [0.75, 1.0, 0.0]]
SHARES = [[0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [0.25, 0.25, 0.5],
          [0.0, 0.4, 0.6]]
CLASS_WEIGHTS = torch.tensor([0.5, 2.0, 1.5], dtype=torch.float64)
POSITIVE_WEIGHTS = torch.tensor([3.0, 0.5, 2.0], dtype=torch.float64)


def log_softmax(x):
    return functional.log_softmax(x, 1)


CASES = {
    "cross_entropy": lambda x, y, t, s: functional.cross_entropy(x, y),
    "cross_entropy smoothed": lambda x, y, t, s: functional.cross_entropy(
        x, y, label_smoothing=0.1),
    "cross_entropy smoothed, ignoring 2":
        lambda x, y, t, s: functional.cross_entropy(
            x, y, label_smoothing=0.1, ignore_index=2),
    "bce_with_logits": lambda x, y, t, s:
        functional.binary_cross_entropy_with_logits(x, t),
    "mean_squared_error": lambda x, y, t, s: functional.mse_loss(x, t),
    "l1": lambda x, y, t, s: functional.l1_loss(x, t),
    "huber 0.5": lambda x, y, t, s: functional.huber_loss(x, t, delta=0.5),
    "negative_log_likelihood": lambda x, y, t, s: functional.nll_loss(x, y),
    "negative_log_likelihood, ignoring 2":
        lambda x, y, t, s: functional.nll_loss(x, y, ignore_index=2),
    "cross_entropy with class weights": lambda x, y, t, s:
        functional.cross_entropy(x, y, weight=CLASS_WEIGHTS),
    "cross_entropy with class weights, smoothed, ignoring 2":
        lambda x, y, t, s: functional.cross_entropy(
            x, y, weight=CLASS_WEIGHTS, label_smoothing=0.1, ignore_index=2),
    "negative_log_likelihood with class weights":
        lambda x, y, t, s: functional.nll_loss(x, y, weight=CLASS_WEIGHTS),
    "negative_log_likelihood with class weights, ignoring 2":
        lambda x, y, t, s: functional.nll_loss(
            x, y, weight=CLASS_WEIGHTS, ignore_index=2),
    "bce_with_logits with positive weights": lambda x, y, t, s:
        functional.binary_cross_entropy_with_logits(
            x, t, pos_weight=POSITIVE_WEIGHTS),
    "bce_with_logits with one positive weight": lambda x, y, t, s:
        functional.binary_cross_entropy_with_logits(
            x, t, pos_weight=POSITIVE_WEIGHTS[:1]),
    "kl_divergence": lambda x, y, t, s: functional.kl_div(
        x, s, reduction="batchmean"),
}


def main():
    for name, loss_of in CASES.items():
        x = torch.tensor(SCORES, dtype=torch.float64, requires_grad=True)
        loss = loss_of(x, torch.tensor(LABELS),
                       torch.tensor(TARGETS, dtype=torch.float64),
                       torch.tensor(SHARES, dtype=torch.float64))
        loss.backward()
        print(name, loss.item(), x.grad.flatten().tolist())


if __name__ == "__main__":
    main()
