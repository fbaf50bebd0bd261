"""The models that gpupool must agree on with PyTorch: those of torchvision,
and small ones in the way people write them."""

import math

import torch
import torchvision
from torch import nn
from torch.nn import functional


class UNet(nn.Module):
    """Two levels down and up with skip connections (Ronneberger 2015)."""

    def __init__(self, width=16, classes=3):
        super().__init__()

        def block(inputs, outputs):
            return nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, padding=1),
                nn.BatchNorm2d(outputs), nn.ReLU(),
                nn.Conv2d(outputs, outputs, 3, padding=1),
                nn.BatchNorm2d(outputs), nn.ReLU())

        self.down1 = block(3, width)
        self.down2 = block(width, 2 * width)
        self.bottom = block(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.join2 = block(4 * width, 2 * width)
        self.up1 = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.join1 = block(2 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(functional.max_pool2d(a, 2))
        c = self.bottom(functional.max_pool2d(b, 2))
        b = self.join2(torch.cat([self.up2(c), b], 1))
        a = self.join1(torch.cat([self.up1(b), a], 1))
        return self.head(a)


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads = heads
        self.causal = causal
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def split(self, x):
        batch, tokens, width = x.shape
        return x.view(batch, tokens, self.heads,
                      width // self.heads).transpose(1, 2)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = (self.split(f(x)) for f in (self.query, self.key, self.value))
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)
        if self.causal:
            mask = torch.full((tokens, tokens), -1e9).triu(1)
            scores = scores + mask
        y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))


class Block(nn.Module):
    """Pre-norm transformer block with exact GELU."""

    def __init__(self, width, heads, causal):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """Encoder: features [B, T, width] to classes. Decoder: tokens [B, T] to
    logits [B, T, vocabulary]."""

    def __init__(self, width=64, heads=4, layers=2, tokens=16, classes=10,
                 vocabulary=0):
        super().__init__()
        self.vocabulary = vocabulary
        if vocabulary:
            self.embedding = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(torch.zeros(tokens, width))
        self.blocks = nn.Sequential(
            *[Block(width, heads, bool(vocabulary)) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary or classes)

    def forward(self, x):
        if self.vocabulary:
            x = self.embedding(x)
        x = self.norm(self.blocks(x + self.position))
        return self.head(x if self.vocabulary else x.mean(1))


class Recurrent(nn.Module):
    """LSTM or GRU over [B, T, features], classes from the last step."""

    def __init__(self, kind, features=8, hidden=16, layers=2, classes=5,
                 bidirectional=True):
        super().__init__()
        self.rnn = kind(features, hidden, layers, batch_first=True,
                        bidirectional=bidirectional)
        self.head = nn.Linear(hidden * (2 if bidirectional else 1), classes)

    def forward(self, x):
        y, _ = self.rnn(x)
        return self.head(y[:, -1])


class Mlp(nn.Module):
    def __init__(self, inputs=20, hidden=32, classes=5):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(inputs, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, classes))

    def forward(self, x):
        return self.layers(x)


class Cnn(nn.Module):
    """Convolutions with batch norm; [B, 1, 28, 28] to classes."""

    def __init__(self, width=8, classes=10):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width),
            nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.BatchNorm2d(2 * width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(2 * width * 49, classes))

    def forward(self, x):
        return self.layers(x)


def narrow_vgg11():
    """VGG-11 with a head of 64 instead of 4096."""
    model = torchvision.models.vgg11(weights=None, num_classes=10)
    model.classifier = nn.Sequential(
        nn.Linear(512 * 7 * 7, 64), nn.ReLU(), nn.Dropout(),
        nn.Linear(64, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, 10))
    return model


def vision(name, **options):
    return lambda: getattr(torchvision.models, name)(
        weights=None, num_classes=10, **options)


# name -> (maker, shape of one example, number of token ids or 0)
INFERENCE = {
    "resnet18": (vision("resnet18"), [3, 96, 96], 0),
    "resnet50": (vision("resnet50"), [3, 64, 64], 0),
    "mobilenet_v2": (vision("mobilenet_v2"), [3, 96, 96], 0),
    "mobilenet_v3": (vision("mobilenet_v3_small"), [3, 96, 96], 0),
    "vgg11": (narrow_vgg11, [3, 224, 224], 0),
    "densenet121": (vision("densenet121"), [3, 64, 64], 0),
    "squeezenet": (vision("squeezenet1_1"), [3, 96, 96], 0),
    "unet": (UNet, [3, 32, 32], 0),
    "encoder": (Transformer, [16, 64], 0),
    "decoder": (lambda: Transformer(vocabulary=50), [16], 50),
    "lstm": (lambda: Recurrent(nn.LSTM), [12, 8], 0),
    "gru": (lambda: Recurrent(nn.GRU), [12, 8], 0),
}

# name -> (maker, shape of one example, classes, batch)
TRAINING = {
    "train_mlp": (Mlp, [20], 5, 16),
    "train_cnn": (Cnn, [1, 28, 28], 10, 16),
    "train_resnet18": (vision("resnet18"), [3, 64, 64], 10, 8),
    "train_encoder": (Transformer, [16, 64], 10, 8),
    "train_lstm": (lambda: Recurrent(nn.LSTM, layers=1, bidirectional=False),
                   [12, 8], 5, 8),
}
