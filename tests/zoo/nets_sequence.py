"""Transformers and recurrent nets, written as their papers and exporters do."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from entry import Net, both, images, numbers, tokens

WIDTH, HEADS, VOCABULARY, LENGTH = 32, 4, 50, 12


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Attention(nn.Module):
    """Self or cross attention with the variants that decoders use."""

    def __init__(self, causal=False, rotary=False, alibi=False, bias=False,
                 key_heads=HEADS, scale=True):
        super().__init__()
        self.depth = WIDTH // HEADS
        self.q = nn.Linear(WIDTH, WIDTH)
        self.k = nn.Linear(WIDTH, key_heads * self.depth)
        self.v = nn.Linear(WIDTH, key_heads * self.depth)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.key_heads, self.scale, self.rotary = key_heads, scale, rotary
        mask = torch.zeros(1, HEADS, LENGTH, LENGTH)
        places = torch.arange(LENGTH)
        if alibi:
            slopes = 2.0 ** -(torch.arange(1, HEADS + 1) * 8 / HEADS)
            mask = mask - slopes.view(1, -1, 1, 1) * (places[:, None] - places).abs()
        if causal:
            mask = mask.masked_fill(places[:, None] < places, -1e9)
        self.masked = alibi or causal
        self.register_buffer("mask", mask)
        angles = places[:, None] / 10000 ** (torch.arange(0, self.depth, 2) / self.depth)
        angles = torch.cat([angles, angles], -1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.bias = nn.Embedding(8, HEADS) if bias else None
        self.register_buffer("buckets", (places[:, None] - places).abs().clamp(max=7))

    def heads(self, x, count):
        x = x.view(x.shape[0], -1, count, self.depth).transpose(1, 2)
        if count == HEADS:
            return x
        # repeat_interleave, which PyTorch 1.13 exports wrongly
        x = x.unsqueeze(2).expand(-1, -1, HEADS // count, -1, -1)
        return x.reshape(x.shape[0], HEADS, -1, self.depth)

    def forward(self, x, memory=None):
        memory = x if memory is None else memory
        q = self.heads(self.q(x), HEADS)
        k = self.heads(self.k(memory), self.key_heads)
        v = self.heads(self.v(memory), self.key_heads)
        if self.rotary:
            q, k = rotate(q, self.cos, self.sin), rotate(k, self.cos, self.sin)
        scores = q @ k.transpose(-1, -2)
        if self.scale:
            scores = scores / math.sqrt(self.depth)
        if self.masked:
            scores = scores + self.mask
        if self.bias is not None:
            scores = scores + self.bias(self.buckets).permute(2, 0, 1).unsqueeze(0)
        y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(x.shape[0], -1, WIDTH))


class RmsNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Gated(nn.Module):
    """The feed-forward part with a gate: SwiGLU or GEGLU."""

    def __init__(self, gate=F.silu):
        super().__init__()
        self.up, self.side = nn.Linear(WIDTH, 64), nn.Linear(WIDTH, 64)
        self.down, self.gate = nn.Linear(64, WIDTH), gate

    def forward(self, x):
        return self.down(self.gate(self.side(x)) * self.up(x))


def feed_forward(activation=nn.GELU):
    return nn.Sequential(nn.Linear(WIDTH, 64), activation(), nn.Linear(64, WIDTH))


class Block(nn.Module):
    def __init__(self, attention, forward=None, norm=None, first=True, cross=None):
        super().__init__()
        norm = norm or (lambda: nn.LayerNorm(WIDTH))
        self.attention, self.feed = attention, forward or feed_forward()
        self.a, self.b, self.first = norm(), norm(), first
        self.cross, self.c = cross, norm() if cross else None

    def forward(self, x, memory=None):
        if not self.first:
            x = self.a(x + self.attention(x))
            return self.b(x + self.feed(x))
        x = x + self.attention(self.a(x))
        if self.cross is not None:
            x = x + self.cross(self.c(x), memory)
        return x + self.feed(self.b(x))


class Language(nn.Module):
    """Tokens to scores of the next token, or of a class."""

    def __init__(self, block, positions=True, tied=False, classes=0, norm=None):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH) if positions else None
        self.register_buffer("places", torch.arange(LENGTH))
        self.blocks = nn.Sequential(block(), block())
        self.norm = (norm or (lambda: nn.LayerNorm(WIDTH)))()
        self.head = nn.Linear(WIDTH, classes or VOCABULARY, bias=not tied)
        if tied:
            self.head.weight = self.embedding.weight
        self.classes = classes

    def forward(self, ids):
        x = self.embedding(ids)
        if self.positions is not None:
            x = x + self.positions(self.places)
        x = self.norm(self.blocks(x))
        return self.head(x[:, 0] if self.classes else x)


class EncoderDecoder(nn.Module):
    """As T5: relative biases, no scale, RMS norms, tokens on both sides."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.encoder = Block(Attention(bias=True, scale=False), norm=RmsNorm)
        self.decoder = Block(Attention(causal=True, bias=True, scale=False),
                             norm=RmsNorm, cross=Attention(scale=False))
        self.norm = RmsNorm()

    def forward(self, source, target):
        memory = self.encoder(self.embedding(source))
        y = self.norm(self.decoder(self.embedding(target), memory))
        return F.linear(y * WIDTH ** -0.5, self.embedding.weight)


class LinearAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        y = q @ (k.transpose(1, 2) @ v)
        return self.out(y / (q @ k.sum(1, keepdim=True).transpose(1, 2)))


class Experts(nn.Module):
    """A mixture of experts whose gate weighs the best two of four."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, 4)
        self.experts = nn.ModuleList(feed_forward(nn.ReLU) for _ in range(4))

    def forward(self, x):
        scores, places = self.gate(x).topk(2, -1)
        weights = torch.zeros_like(self.gate(x)).scatter(
            -1, places, scores.softmax(-1))
        outputs = torch.stack([expert(x) for expert in self.experts], -1)
        return (outputs * weights.unsqueeze(-2)).sum(-1)


class Patches(nn.Module):
    """An image as tokens, some blocks over them, and the mean."""

    def __init__(self, block, classes=10):
        super().__init__()
        self.cut = nn.Conv2d(3, WIDTH, 8, 8)
        self.blocks, self.head = nn.Sequential(block(), block()), nn.Linear(WIDTH, classes)

    def forward(self, x):
        x = self.cut(x).flatten(2).transpose(1, 2)
        return self.head(self.blocks(x).mean(1))


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.tokens = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.channels = feed_forward()

    def forward(self, x):
        x = x + self.tokens(self.a(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.b(x))


class Perceiver(nn.Module):
    def __init__(self):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(1, LENGTH, WIDTH) * 0.1)
        self.read = nn.Linear(7, WIDTH)
        self.cross, self.block = Attention(), Block(Attention())
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, x):
        latents = self.latents.expand(x.shape[0], -1, -1)
        y = latents + self.cross(latents, self.read(x))
        return self.head(self.block(y).mean(1))


class Recurrent(nn.Module):
    def __init__(self, kind, classes=6, every=False, **options):
        super().__init__()
        self.net = kind(8, 16, batch_first=True, **options)
        self.head = nn.Linear(32 if options.get("bidirectional") else 16, classes)
        self.every = every

    def forward(self, x):
        y = self.net(x)[0]
        return self.head(y if self.every else y[:, -1])


class Letters(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 8)
        self.net = nn.LSTM(8, 16, num_layers=2, batch_first=True)
        self.head = nn.Linear(16, VOCABULARY)

    def forward(self, ids):
        return self.head(self.net(self.embedding(ids))[0])


class Cells(nn.Module):
    """A seq2seq net with attention, whose cells run in a loop of Python."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.GRU(8, 16, batch_first=True)
        self.cell, self.head = nn.GRUCell(16, 16), nn.Linear(32, 7)

    def forward(self, x):
        memory, state = self.encoder(x)
        state, outputs = state[0], []
        for _ in range(4):
            weights = (memory @ state.unsqueeze(-1)).softmax(1)
            read = (memory * weights).sum(1)
            state = self.cell(read, state)
            outputs.append(self.head(torch.cat([state, read], -1)))
        return torch.stack(outputs, 1)


class ConvLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates, self.head = nn.Conv2d(3 + 8, 32, 3, padding=1), nn.Linear(8, 4)

    def forward(self, x):
        h = torch.zeros(x.shape[0], 8, 8, 8)
        c = torch.zeros(x.shape[0], 8, 8, 8)
        for t in range(3):
            i, f, o, g = self.gates(torch.cat([x[:, t], h], 1)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return self.head(h.mean((2, 3)))


class WaveNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(4, 16, 1)
        self.gates = nn.ModuleList(nn.Conv1d(16, 32, 2, dilation=d) for d in (1, 2, 4))
        self.skips = nn.ModuleList(nn.Conv1d(16, 16, 1) for _ in range(3))
        self.head = nn.Conv1d(16, 5, 1)

    def forward(self, x):
        x, total = self.first(x), 0
        for gate, skip in zip(self.gates, self.skips):
            room = gate.dilation[0]
            a, b = gate(F.pad(x, (room, 0))).chunk(2, 1)
            y = skip(a.tanh() * b.sigmoid())
            x, total = x + y, total + y
        return self.head(total.relu()).transpose(1, 2)


def language(name, attention, **options):
    block_options = options.pop("block", {})
    norm = block_options.get("norm")

    def make():
        return Language(lambda: Block(attention(), block_options.get("feed", feed_forward)(),
                                      norm, block_options.get("first", True)),
                        norm=norm, **options)
    return Net(name, "transformer", make, tokens(VOCABULARY, LENGTH))


def recurrent(name, kind, **options):
    return Net(name, "recurrent", lambda: Recurrent(kind, **options), numbers(9, 8))


NETS = [
    language("bert", Attention, classes=4, block={"first": False}),
    language("gpt", lambda: Attention(causal=True)),
    language("gpt_tied", lambda: Attention(causal=True), tied=True),
    language("llama", lambda: Attention(causal=True, rotary=True), positions=False,
             block={"norm": RmsNorm, "feed": Gated}),
    language("llama_grouped", lambda: Attention(causal=True, rotary=True, key_heads=2),
             positions=False, block={"norm": RmsNorm, "feed": Gated}),
    language("multi_query", lambda: Attention(causal=True, key_heads=1)),
    language("alibi", lambda: Attention(causal=True, alibi=True), positions=False),
    language("t5_encoder", lambda: Attention(bias=True, scale=False),
             positions=False, classes=4, block={"norm": RmsNorm,
                                                "feed": lambda: Gated(F.gelu)}),
    language("linear_attention", LinearAttention, classes=4),
    language("experts", lambda: Attention(causal=True), block={"feed": Experts}),
    Net("t5", "transformer", EncoderDecoder,
        both(tokens(VOCABULARY, LENGTH), tokens(VOCABULARY, LENGTH))),
    Net("encoder_post_norm", "transformer",
        lambda: nn.Sequential(*(Block(Attention(), first=False) for _ in range(2))),
        numbers(LENGTH, WIDTH)),
    Net("vit_mean", "transformer", lambda: Patches(lambda: Block(LinearAttention())),
        images(3, 32)),
    Net("mlp_mixer", "transformer", lambda: Patches(Mixer), images(3, 32)),
    Net("perceiver", "transformer", Perceiver, numbers(20, 7)),
    recurrent("rnn", nn.RNN), recurrent("gru", nn.GRU), recurrent("lstm", nn.LSTM),
    recurrent("lstm_both_ways", nn.LSTM, bidirectional=True),
    recurrent("gru_two_layers", nn.GRU, num_layers=2),
    recurrent("lstm_tagger", nn.LSTM, every=True),
    Net("letters_lstm", "recurrent", Letters, tokens(VOCABULARY, LENGTH)),
    Net("seq2seq_cells", "recurrent", Cells, numbers(9, 8)),
    Net("conv_lstm", "recurrent", ConvLstm, numbers(3, 3, 8, 8)),
    Net("wavenet", "recurrent", WaveNet, numbers(4, 20)),
]
