#include "engine/backends/cpu/elementwise/tile_program.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/backends/cpu/elementwise/row_functions.h"
#include "engine/backends/cpu/kernel/half_rows.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/function_kernel.h"
#include "engine/backends/strides.h"
#include "engine/base/align.h"
#include "engine/graph/fused.h"

namespace gpupool::engine {
namespace {

constexpr int64_t kTile = 1024;         // numbers; 4 KiB per row
constexpr int64_t kLargestTile = 4096;  // to hold a whole row of a matrix
constexpr int kDirect = -1;             // as a row: the output's own memory
constexpr int kNone = -2;

struct Input {
  enum class Kind : uint8_t {
    kLinear,    // as the output is
    kRepeated,  // the same numbers in every tile
    kWalked,    // collected for each tile
  };
  Kind kind = Kind::kLinear;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> strides;
  int row = kNone;  // where it is collected; linear float32 is read in place
};

struct Step {
  RowFunction function = nullptr;
  RowNumbers numbers;
  std::vector<size_t> operands;  // at most three
  int row = kNone;
};

struct Result {
  size_t operand = 0;
  DType dtype = DType::kFloat32;
};

// Fills a row with a number. Doubles the filled part, which is as fast as a
// copy.
void Repeat(float number, float* to, int64_t count) {
  int64_t done = std::min<int64_t>(count, 16);
  std::fill(to, to + done, number);
  while (done < count) {
    const int64_t more = std::min(done, count - done);
    std::memcpy(to + done, to, static_cast<size_t>(more) * sizeof(float));
    done += more;
  }
}

// Copies `count` elements as numbers. Truth values become 1 and 0.
void CollectTruth(const uint8_t* from, int64_t stride, int64_t count,
                  float* to) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = from[i * stride] != 0 ? 1.0f : 0.0f;
  }
}

void CollectHalf(DType dtype, const uint16_t* from, int64_t stride,
                 int64_t count, float* to) {
  if (stride == 1) {
    FloatsFromHalf(dtype, from, to, count);
  } else if (stride == 0) {
    FloatsFromHalf(dtype, from, to, 1);
    Repeat(to[0], to, count);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      FloatsFromHalf(dtype, from + i * stride, to + i, 1);
    }
  }
}

void CollectFloats(const float* from, int64_t stride, int64_t count,
                   float* to) {
  if (stride == 0) {
    Repeat(*from, to, count);
  } else if (stride == 1) {
    std::copy(from, from + count, to);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
  }
}

// Copies elements `at`, `at` + stride, ... as numbers.
void Collect(const std::byte* from, DType dtype, int64_t at, int64_t stride,
             int64_t count, float* to) {
  if (dtype == DType::kBool) {
    CollectTruth(reinterpret_cast<const uint8_t*>(from) + at, stride, count,
                 to);
  } else if (IsHalf(dtype)) {
    CollectHalf(dtype, reinterpret_cast<const uint16_t*>(from) + at, stride,
                count, to);
  } else {
    CollectFloats(reinterpret_cast<const float*>(from) + at, stride, count, to);
  }
}

// Stores numbers as elements [at, at + count).
void StoreRow(const float* from, DType dtype, int64_t at, int64_t count,
              std::byte* to) {
  if (dtype == DType::kBool) {
    auto* bytes = reinterpret_cast<uint8_t*>(to) + at;
    for (int64_t i = 0; i < count; ++i) bytes[i] = from[i] != 0 ? 1 : 0;
  } else if (IsHalf(dtype)) {
    HalfFromFloats(dtype, from, reinterpret_cast<uint16_t*>(to) + at, count);
  } else {
    std::copy(from, from + count, reinterpret_cast<float*>(to) + at);
  }
}

class TileProgram {
 public:
  TileProgram(const CompileRequest& request, const CpuContext& context);

  uint64_t workspace_bytes() const {
    return static_cast<uint64_t>(threads_) * part_bytes_;
  }
  void Run(const KernelArguments& at) const;

 private:
  void AddInputs(const CompileRequest& request);
  void AddSteps(const CompileRequest& request);
  void ChooseTile();
  void AssignRows();
  // Returns the number of elements after which the input repeats, or 0 for
  // never.
  int64_t PeriodOf(const Input& input) const;
  // Returns the input's numbers for [begin, end): in place, or collected in
  // `row`.
  const float* Read(const Input& input, const std::byte* from, int64_t begin,
                    int64_t end, float* row) const;
  void RunPart(const KernelArguments& at, std::byte* scratch, int64_t begin,
               int64_t end) const;
  void RunTile(const KernelArguments& at, const float** operands, float* rows,
               int64_t begin, int64_t end) const;

  LoopNest loops_;  // operands: inputs, output 0
  int64_t count_ = 0;
  int64_t tile_ = kTile;
  int64_t row_pitch_ = 0;  // numbers between rows
  int rows_ = 0;
  int threads_ = 1;
  int flops_ = 0;  // per element
  uint64_t part_bytes_ = 0;
  std::vector<Input> inputs_;
  std::vector<Step> steps_;
  std::vector<Result> results_;
};

TileProgram::TileProgram(const CompileRequest& request,
                         const CpuContext& context)
    : count_(OutputOf(request, 0).shape.elements()) {
  AddInputs(request);
  AddSteps(request);
  ChooseTile();
  AssignRows();
  threads_ =
      std::max(context.ThreadsForBytes(MovedBytes(request)),
               context.ThreadsForFlops(static_cast<uint64_t>(count_ * flops_)));
  const auto row_bytes = static_cast<uint64_t>(rows_ * row_pitch_) * 4;
  part_bytes_ = AlignUp(row_bytes + (inputs_.size() + steps_.size()) *
                                        sizeof(const float*));
}

void TileProgram::AddInputs(const CompileRequest& request) {
  std::vector<const Value*> values;
  for (size_t i = 0; i < request.node.inputs.size(); ++i) {
    values.push_back(&InputOf(request, i));
  }
  loops_ = BroadcastLoops(values, OutputOf(request, 0));
  loops_.Collapse();
  for (size_t i = 0; i < values.size(); ++i) {
    Input input;
    input.dtype = values[i]->dtype;
    input.strides = loops_.strides[i];
    if (input.strides == loops_.strides.back()) {
      input.kind = Input::Kind::kLinear;
    } else {
      input.kind = Input::Kind::kWalked;
    }
    inputs_.push_back(std::move(input));
  }
}

void TileProgram::AddSteps(const CompileRequest& request) {
  const Node& node = request.node;
  const auto add = [&](Op op, const Attributes& attributes,
                       const std::vector<int>& operands) {
    const RowStep row = RowStepOf(op, attributes);
    Step step{row.function, row.numbers, {}, kNone};
    step.operands.assign(operands.begin(), operands.end());
    flops_ += row.flops;
    steps_.push_back(std::move(step));
  };
  std::vector<int> results;
  if (node.op == Op::kFused) {
    const auto& fused = node.get<FusedAttributes>();
    for (const FusedStep& step : fused.steps) {
      add(step.op, StepAttributes(step), step.operands);
    }
    results = fused.results;
  } else {
    std::vector<int> operands;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      operands.push_back(static_cast<int>(i));
    }
    add(node.op, node.attributes, operands);
    results.push_back(static_cast<int>(node.inputs.size()));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    results_.push_back(
        {static_cast<size_t>(results[i]), OutputOf(request, i).dtype});
  }
}

int64_t TileProgram::PeriodOf(const Input& input) const {
  const std::vector<int64_t>& linear = loops_.strides.back();
  int64_t period = 1;
  size_t loop = linear.size();
  // The innermost loops must walk as the output does, and the outer ones
  // repeat.
  while (loop > 0 && input.strides[loop - 1] == linear[loop - 1]) {
    period *= loops_.sizes[--loop];
  }
  while (loop > 0 && input.strides[loop - 1] == 0) --loop;
  return loop == 0 ? period : 0;
}

void TileProgram::ChooseTile() {
  // A row vector that is added to a matrix determines the tile. A short one
  // repeats within the tile. A long one is read in place, when no tile crosses
  // its end.
  for (const Input& input : inputs_) {
    if (input.kind == Input::Kind::kLinear) continue;
    const int64_t period = PeriodOf(input);
    if (period <= 1) continue;
    tile_ = period <= kTile ? kTile / period * period : kTile;
    if (period > kTile && period <= kLargestTile) tile_ = period;
    break;
  }
  tile_ = std::min(tile_, count_);
  row_pitch_ = static_cast<int64_t>(
      AlignUp(static_cast<uint64_t>(tile_) * sizeof(float)) / sizeof(float));
  for (Input& input : inputs_) {
    if (input.kind == Input::Kind::kLinear) continue;
    const int64_t period = PeriodOf(input);
    if (period > 0 && tile_ % period == 0) input.kind = Input::Kind::kRepeated;
  }
}

// Gives values rows from their first to their last use.
void TileProgram::AssignRows() {
  std::vector<size_t> last(inputs_.size() + steps_.size(), 0);
  for (size_t s = 0; s < steps_.size(); ++s) {
    for (const size_t operand : steps_[s].operands) last[operand] = s;
  }
  // Results are stored after the last step.
  for (const Result& result : results_) last[result.operand] = steps_.size();
  std::vector<int> free;
  const auto take = [&] {
    if (free.empty()) return rows_++;
    const int row = free.back();
    free.pop_back();
    return row;
  };
  for (Input& input : inputs_) {
    if (input.kind != Input::Kind::kLinear || input.dtype != DType::kFloat32) {
      input.row = take();
    }
  }
  // The last step writes a single float32 result straight to the output.
  const bool direct = results_.size() == 1 &&
                      results_[0].dtype == DType::kFloat32 &&
                      results_[0].operand == inputs_.size() + steps_.size() - 1;
  for (size_t s = 0; s < steps_.size(); ++s) {
    // Operands with their last use here free their rows before the step takes
    // its own: a row function may write over an operand.
    std::vector<size_t> operands = steps_[s].operands;
    std::sort(operands.begin(), operands.end());
    operands.erase(std::unique(operands.begin(), operands.end()),
                   operands.end());
    for (const size_t operand : operands) {
      if (last[operand] != s) continue;
      if (operand >= inputs_.size()) {
        free.push_back(steps_[operand - inputs_.size()].row);
      } else if (inputs_[operand].row >= 0 &&
                 // Repeated inputs are collected once, so their rows stay
                 // taken.
                 inputs_[operand].kind != Input::Kind::kRepeated) {
        free.push_back(inputs_[operand].row);
      }
    }
    const bool last_step = s + 1 == steps_.size();
    steps_[s].row = direct && last_step ? kDirect : take();
  }
}

const float* TileProgram::Read(const Input& input, const std::byte* from,
                               int64_t begin, int64_t end, float* row) const {
  if (input.kind == Input::Kind::kLinear) {
    if (input.dtype == DType::kFloat32) {
      return reinterpret_cast<const float*>(from) + begin;
    }
    Collect(from, input.dtype, begin, 1, end - begin, row);
    return row;
  }
  const size_t loops = loops_.sizes.size();
  const int64_t inner = loops == 0 ? 1 : loops_.sizes[loops - 1];
  const int64_t stride = loops == 0 ? 0 : input.strides[loops - 1];
  for (int64_t i = begin; i < end;) {
    int64_t at = i % inner * stride;
    int64_t rest = i / inner;
    for (size_t loop = loops == 0 ? 0 : loops - 1; loop > 0; --loop) {
      at += rest % loops_.sizes[loop - 1] * input.strides[loop - 1];
      rest /= loops_.sizes[loop - 1];
    }
    const int64_t run = std::min(inner - i % inner, end - i);
    // The whole tile is contiguous in the input.
    if (i == begin && run == end - begin && stride == 1 &&
        input.dtype == DType::kFloat32) {
      return reinterpret_cast<const float*>(from) + at;
    }
    Collect(from, input.dtype, at, stride, run, row + (i - begin));
    i += run;
  }
  return row;
}

void TileProgram::RunTile(const KernelArguments& at, const float** operands,
                          float* rows, int64_t begin, int64_t end) const {
  const int64_t count = end - begin;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].kind == Input::Kind::kRepeated) continue;
    operands[i] = Read(inputs_[i], at.in<std::byte>(i), begin, end,
                       rows + std::max(inputs_[i].row, 0) * row_pitch_);
  }
  for (size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    std::array<const float*, 3> x{};
    for (size_t k = 0; k < step.operands.size(); ++k) {
      x[k] = operands[step.operands[k]];
    }
    float* y =
        step.row == kDirect ? at.out(0) + begin : rows + step.row * row_pitch_;
    step.function(x.data(), y, count, step.numbers);
    operands[inputs_.size() + s] = y;
  }
  if (steps_.back().row == kDirect) return;
  for (size_t r = 0; r < results_.size(); ++r) {
    StoreRow(operands[results_[r].operand], results_[r].dtype, begin, count,
             at.out<std::byte>(r));
  }
}

void TileProgram::RunPart(const KernelArguments& at, std::byte* scratch,
                          int64_t begin, int64_t end) const {
  auto* rows = reinterpret_cast<float*>(scratch);
  auto** operands = reinterpret_cast<const float**>(rows + rows_ * row_pitch_);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].kind != Input::Kind::kRepeated) continue;
    operands[i] = Read(inputs_[i], at.in<std::byte>(i), 0, tile_,
                       rows + std::max(inputs_[i].row, 0) * row_pitch_);
  }
  for (int64_t i = begin; i < end; i += tile_) {
    RunTile(at, operands, rows, i, std::min(end, i + tile_));
  }
}

void TileProgram::Run(const KernelArguments& at) const {
  ParallelParts(
      threads_, count_, tile_, [&](int part, int64_t begin, int64_t end) {
        const uint64_t offset = static_cast<uint64_t>(part) * part_bytes_;
        RunPart(at, at.workspace<std::byte>() + offset, begin, end);
      });
}

}  // namespace

bool IsTileType(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBool || IsHalf(dtype);
}

KernelOr MakeTileProgram(const CompileRequest& request,
                         const CpuContext& context) {
  for (const ValueId id : request.node.inputs) {
    if (!IsTileType(request.graph.value(id).dtype)) return nullptr;
  }
  for (const ValueId id : request.node.outputs) {
    const Value& output = request.graph.value(id);
    if (!IsTileType(output.dtype)) return nullptr;
    if (output.layout != OutputOf(request, 0).layout) return nullptr;
  }
  if (request.node.op == Op::kFused) {
    for (const FusedStep& step : request.node.get<FusedAttributes>().steps) {
      const auto* cast = std::get_if<CastAttributes>(&step.attributes);
      if (cast != nullptr && !IsTileType(cast->dtype)) return nullptr;
    }
  }
  TileProgram program(request, context);
  const uint64_t workspace = program.workspace_bytes();
  return MakeKernel([program = std::move(program)](
                        const KernelArguments& at) { program.Run(at); },
                    workspace);
}

}  // namespace gpupool::engine
