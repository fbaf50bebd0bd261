#include "engine/backends/portable/movement/copy_plan.h"

#include <cstring>
#include <optional>
#include <utility>

#include "engine/backends/portable/launch/maker.h"
#include "engine/backends/portable/movement/movement_functors.h"

namespace gpupool::engine::portable {
namespace {

constexpr int32_t kWidestWord = 16;

// Returns the elements along each side of a transposition's blocks.
int64_t SideOf(int32_t word_bytes) {
  return word_bytes <= 2 ? 8 : kWidestWord / word_bytes;
}

bool AllMultiplesOf(int64_t factor, const LoopNest& loops, size_t except_loop,
                    size_t operand) {
  for (size_t loop = 0; loop < loops.sizes.size(); ++loop) {
    if (loop != except_loop && loops.strides[operand][loop] % factor != 0) {
      return false;
    }
  }
  return true;
}

// Joins two elements to one word of twice the size. Possible when the innermost
// loop is contiguous on both sides and everything begins at even positions.
bool Widen(LoopNest& loops, CopyPlan& plan) {
  if (loops.sizes.empty() || plan.word_bytes == kWidestWord) return false;
  const size_t inner = loops.sizes.size() - 1;
  if (loops.sizes[inner] % 2 != 0 || plan.from % 2 != 0 || plan.to % 2 != 0) {
    return false;
  }
  for (size_t operand = 0; operand < 2; ++operand) {
    if (loops.strides[operand][inner] != 1 ||
        !AllMultiplesOf(2, loops, inner, operand)) {
      return false;
    }
  }
  loops.sizes[inner] /= 2;
  for (auto& strides : loops.strides) {
    for (size_t loop = 0; loop < inner; ++loop) strides[loop] /= 2;
  }
  plan.word_bytes *= 2;
  plan.from /= 2;
  plan.to /= 2;
  return true;
}

// Returns the loop along which the operand is contiguous.
std::optional<size_t> ContiguousLoop(const LoopNest& loops, size_t operand) {
  for (size_t loop = 0; loop < loops.sizes.size(); ++loop) {
    if (loops.strides[operand][loop] == 1) return loop;
  }
  return std::nullopt;
}

// Turns the loops into loops over blocks, when both sides are contiguous along
// different loops. Sizes and positions must be multiples of the block's side.
bool Block(LoopNest& loops, CopyPlan& plan) {
  const std::optional<size_t> row = ContiguousLoop(loops, 0);
  const std::optional<size_t> column = ContiguousLoop(loops, 1);
  if (!row.has_value() || !column.has_value() || *row == *column ||
      plan.word_bytes == kWidestWord) {
    return false;
  }
  const int64_t side = SideOf(plan.word_bytes);
  if (loops.sizes[*row] % side != 0 || loops.sizes[*column] % side != 0 ||
      plan.from % side != 0 || plan.to % side != 0 ||
      !AllMultiplesOf(side, loops, *row, 0) ||
      !AllMultiplesOf(side, loops, *column, 1)) {
    return false;
  }
  plan.transpose = true;
  plan.from_line = loops.strides[0][*column];
  plan.to_line = loops.strides[1][*row];
  for (const size_t loop : {*row, *column}) {
    loops.sizes[loop] /= side;
    for (auto& strides : loops.strides) strides[loop] *= side;
  }
  return true;
}

template <typename Word>
void LaunchWords(LaunchStream stream, const CopyPlan& plan,
                 const std::byte* from, std::byte* to) {
  LaunchFor(
      stream, plan.count,
      CopyFunctor<Word>{reinterpret_cast<const Word*>(from) + plan.from,
                        reinterpret_cast<Word*>(to) + plan.to, plan.walk});
}

template <typename Word, int kSide>
void LaunchBlocks(LaunchStream stream, const CopyPlan& plan,
                  const std::byte* from, std::byte* to) {
  LaunchFor(stream, plan.count,
            TransposeFunctor<Word, kSide>{
                reinterpret_cast<const Word*>(from) + plan.from,
                reinterpret_cast<Word*>(to) + plan.to, plan.from_line,
                plan.to_line, plan.walk});
}

template <typename Word>
void FillWords(LaunchStream stream, std::byte* to, int64_t count,
               const std::byte* word) {
  FillFunctor<Word> functor{reinterpret_cast<Word*>(to), {}};
  std::memcpy(&functor.word, word, sizeof(Word));
  LaunchFor(stream, count, functor);
}

}  // namespace

CopyPlan PlanCopy(LoopNest loops, int64_t from, int64_t to,
                  uint64_t element_bytes) {
  CopyPlan plan;
  plan.word_bytes = static_cast<int32_t>(element_bytes);
  plan.from = from;
  plan.to = to;
  loops.Collapse();
  // Blocks have their own words, so only other copies are widened.
  if (!Block(loops, plan)) {
    while (Widen(loops, plan)) {
    }
  }
  plan.count = loops.count();
  plan.walk = WalkOf<2>(std::move(loops));
  return plan;
}

void LaunchCopy(LaunchStream stream, const CopyPlan& plan,
                const std::byte* from, std::byte* to) {
  if (plan.count == 0) return;
  switch (plan.word_bytes) {
    case 1:
      return plan.transpose ? LaunchBlocks<uint8_t, 8>(stream, plan, from, to)
                            : LaunchWords<uint8_t>(stream, plan, from, to);
    case 2:
      return plan.transpose ? LaunchBlocks<uint16_t, 8>(stream, plan, from, to)
                            : LaunchWords<uint16_t>(stream, plan, from, to);
    case 4:
      return plan.transpose ? LaunchBlocks<uint32_t, 4>(stream, plan, from, to)
                            : LaunchWords<uint32_t>(stream, plan, from, to);
    case 8:
      return plan.transpose ? LaunchBlocks<uint64_t, 2>(stream, plan, from, to)
                            : LaunchWords<uint64_t>(stream, plan, from, to);
    default:
      return LaunchWords<Word16>(stream, plan, from, to);
  }
}

void LaunchFill(LaunchStream stream, std::byte* to, int64_t count,
                absl::Span<const std::byte> element) {
  uint64_t bytes = element.size();
  std::byte word[kWidestWord];
  std::memcpy(word, element.data(), bytes);
  // Buffers are aligned to 16 bytes, so wide words are aligned, too.
  while (bytes < kWidestWord && count % 2 == 0) {
    std::memcpy(word + bytes, word, bytes);
    bytes *= 2;
    count /= 2;
  }
  switch (bytes) {
    case 1:
      return FillWords<uint8_t>(stream, to, count, word);
    case 2:
      return FillWords<uint16_t>(stream, to, count, word);
    case 4:
      return FillWords<uint32_t>(stream, to, count, word);
    case 8:
      return FillWords<uint64_t>(stream, to, count, word);
    default:
      return FillWords<Word16>(stream, to, count, word);
  }
}

}  // namespace gpupool::engine::portable
