#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "engine/backends/portable/elementwise/elementwise_functors.h"
#include "engine/backends/portable/launch/maker.h"
#include "engine/base/status_macros.h"
#include "engine/graph/fused.h"

namespace gpupool::engine::portable {
namespace {

Activation ActivationOf(Op op, const Attributes& attributes) {
  switch (op) {
    case Op::kRelu:
    case Op::kReluGrad:
      return Activation::kRelu;
    case Op::kSigmoid:
    case Op::kSigmoidGrad:
      return Activation::kSigmoid;
    case Op::kTanh:
    case Op::kTanhGrad:
      return Activation::kTanh;
    default:
      return std::get<GeluAttributes>(attributes).tanh_approximation
                 ? Activation::kGeluTanh
                 : Activation::kGelu;
  }
}

// Returns the kind, function and parameters of an op.
ProgramStep StepOf(Op op, const Attributes& attributes) {
  ProgramStep step;
  const auto set = [&step](StepKind kind, auto function) {
    step.kind = kind;
    step.function = static_cast<uint8_t>(function);
  };
  switch (op) {
    case Op::kUnary:
    case Op::kUnaryGrad: {
      const auto& unary = std::get<UnaryAttributes>(attributes);
      set(op == Op::kUnary ? StepKind::kUnary : StepKind::kUnaryGrad,
          unary.function);
      step.alpha = unary.alpha;
      step.beta = unary.beta;
      break;
    }
    case Op::kBinary:
      set(StepKind::kBinary, std::get<BinaryAttributes>(attributes).function);
      break;
    case Op::kAdd:
      set(StepKind::kBinary, BinaryFunction::kAdd);
      break;
    case Op::kWhere:
      set(StepKind::kWhere, 0);
      break;
    case Op::kCast:
      set(StepKind::kCast, 0);
      break;
    case Op::kRelu:
    case Op::kGelu:
    case Op::kSigmoid:
    case Op::kTanh:
      set(StepKind::kActivation, ActivationOf(op, attributes));
      break;
    default:
      set(StepKind::kActivationGrad, ActivationOf(op, attributes));
  }
  return step;
}

// Builds a program and chooses the functor that runs it.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(const CompileRequest& request) : request_(request) {
    for (size_t k = 0; k < request.node.inputs.size(); ++k) {
      types_.push_back(InputOf(request, k).dtype);
      if (k < kMaxProgramInputs) program_.inputs[k].type = types_[k];
    }
    program_.count = OutputOf(request, 0).shape.elements();
  }

  // Adds the node. Returns false when it is too large for a program.
  bool AddNode();
  void ChooseAccess(int width);
  // Returns whether all operands fit the functor that computes in float.
  bool IsFloat() const;
  // Returns the common type of all operands of a program of one step.
  std::optional<DType> OneType() const;

  const ElementwiseProgram& program() const { return program_; }

 private:
  void AddStep(ProgramStep step, const std::vector<int>& operands, DType type);
  bool AddFused();

  const CompileRequest& request_;
  ElementwiseProgram program_;
  std::vector<DType> types_;  // of the operands
};

void ProgramBuilder::AddStep(ProgramStep step, const std::vector<int>& operands,
                             DType type) {
  // Unused operands repeat the first, so that functors need no checks.
  for (size_t k = 0; k < 3; ++k) {
    step.operands[k] =
        static_cast<uint8_t>(operands[k < operands.size() ? k : 0]);
  }
  step.operand_type = types_[static_cast<size_t>(operands.back())];
  step.type = type;
  types_.push_back(type);
  program_.steps[program_.step_count++] = step;
}

bool ProgramBuilder::AddFused() {
  const auto& fused = request_.node.get<FusedAttributes>();
  if (fused.steps.size() > kMaxProgramSteps ||
      fused.results.size() > kMaxProgramResults) {
    return false;
  }
  const auto dtypes =
      FusedOperandTypes(fused, request_.graph.InputTypes(request_.node));
  if (!dtypes.ok()) return false;
  for (size_t s = 0; s < fused.steps.size(); ++s) {
    const FusedStep& step = fused.steps[s];
    AddStep(StepOf(step.op, StepAttributes(step)), step.operands,
            (*dtypes)[request_.node.inputs.size() + s]);
  }
  for (size_t r = 0; r < fused.results.size(); ++r) {
    // One walk serves all results, so their layouts must agree.
    if (OutputOf(request_, r).layout != OutputOf(request_, 0).layout) {
      return false;
    }
    program_.results[r].operand = fused.results[r];
    program_.results[r].type = OutputOf(request_, r).dtype;
  }
  program_.result_count = static_cast<int32_t>(fused.results.size());
  return true;
}

bool ProgramBuilder::AddNode() {
  const Node& node = request_.node;
  if (node.inputs.size() > kMaxProgramInputs) return false;
  program_.input_count = static_cast<int32_t>(node.inputs.size());
  if (node.op == Op::kFused) return AddFused();
  const DType type = OutputOf(request_, 0).dtype;
  // x * scale + shift: operand 3 is the result of the first step.
  if (node.op == Op::kScaleShift) {
    ProgramStep step;
    step.kind = StepKind::kBinary;
    step.function = static_cast<uint8_t>(BinaryFunction::kMultiply);
    AddStep(step, {0, 1}, type);
    step.function = static_cast<uint8_t>(BinaryFunction::kAdd);
    AddStep(step, {3, 2}, type);
  } else {
    std::vector<int> operands;
    for (int k = 0; k < program_.input_count; ++k) operands.push_back(k);
    AddStep(StepOf(node.op, node.attributes), operands, type);
  }
  program_.results[0].operand = program_.input_count + program_.step_count - 1;
  program_.results[0].type = type;
  program_.result_count = 1;
  return true;
}

void ProgramBuilder::ChooseAccess(int width) {
  std::vector<const Value*> values;
  for (size_t k = 0; k < request_.node.inputs.size(); ++k) {
    values.push_back(&InputOf(request_, k));
  }
  LoopNest nest = BroadcastLoops(values, OutputOf(request_, 0));
  // The output is needed only for comparison. The walk covers the inputs.
  nest.Collapse();
  const std::vector<int64_t> linear = nest.strides.back();
  nest.strides.pop_back();
  const std::vector<std::vector<int64_t>> strides = nest.strides;
  nest.strides.resize(kMaxProgramInputs,
                      std::vector<int64_t>(nest.sizes.size(), 0));
  const ProgramWalk& walk = program_.walk =
      WalkOf<kMaxProgramInputs>(std::move(nest));
  const int inner = walk.loops - 1;
  for (int k = 0; k < program_.input_count; ++k) {
    Access& access = program_.inputs[k].access;
    const int64_t* steps = walk.strides[k];
    // A pack of `width` results must lie in one innermost loop and begin at
    // aligned places.
    bool aligned = inner >= 0 && walk.sizes[inner] % width == 0;
    const bool packs = aligned;
    for (int loop = 0; loop < inner; ++loop) {
      aligned = aligned && steps[loop] % width == 0;
    }
    if (strides[static_cast<size_t>(k)] == linear) {
      access = Access::kLinear;
    } else if (std::all_of(steps, steps + walk.loops,
                           [](int64_t step) { return step == 0; })) {
      access = Access::kScalar;
    } else if (packs && steps[inner] == 0) {
      access = Access::kRepeat;
    } else if (aligned && steps[inner] == 1) {
      access = Access::kRow;
    } else {
      access = Access::kWalk;
    }
  }
}

bool ProgramBuilder::IsFloat() const {
  return std::all_of(types_.begin(), types_.end(), [](DType type) {
    return type == DType::kFloat32 || type == DType::kBFloat16 ||
           type == DType::kFloat16 || type == DType::kBool;
  });
}

std::optional<DType> ProgramBuilder::OneType() const {
  if (program_.step_count != 1) return std::nullopt;
  for (const DType type : types_) {
    if (type != types_[0]) return std::nullopt;
  }
  return types_[0];
}

using ProgramLaunch = void (*)(LaunchStream, const ElementwiseProgram&);

template <typename Functor>
void LaunchMap(LaunchStream stream, const ElementwiseProgram& program) {
  Functor functor;
  for (int k = 0; k < Functor::kOperands; ++k) {
    functor.inputs[k] = program.inputs[k];
  }
  functor.walk = program.walk;
  functor.y = static_cast<decltype(functor.y)>(program.results[0].data);
  functor.count = program.count;
  functor.alpha = static_cast<float>(program.steps[0].alpha);
  functor.beta = static_cast<float>(program.steps[0].beta);
  LaunchFor(stream, CeilDivide(program.count, Functor::kWidth), functor);
}

void LaunchProgram(LaunchStream stream, const ElementwiseProgram& program) {
  LaunchFor(stream, CeilDivide(program.count, ProgramFunctor::kWidth),
            ProgramFunctor{program});
}

void LaunchNumbers(LaunchStream stream, const ElementwiseProgram& program) {
  LaunchFor(stream, program.count, NumberFunctor{program});
}

template <typename Functor>
void TryMap(const ProgramStep& step, ProgramLaunch* launch) {
  if (step.kind == Functor::kStepKind &&
      step.function == Functor::kStepFunction) {
    *launch = LaunchMap<Functor>;
  }
}

// Returns null when the step has no functor of its own.
template <typename T>
ProgramLaunch FindMap(const ProgramStep& step) {
  ProgramLaunch launch = nullptr;
#define GPUPOOL_TRY_MAP(...) TryMap<__VA_ARGS__>(step, &launch);
  GPUPOOL_ELEMENTWISE_MAPS(GPUPOOL_TRY_MAP, T)
#undef GPUPOOL_TRY_MAP
  return launch;
}

ProgramLaunch FindMap(DType type, const ProgramStep& step) {
  switch (type) {
    case DType::kFloat32:
      return FindMap<float>(step);
    case DType::kBFloat16:
      return FindMap<BFloat16>(step);
    case DType::kFloat16:
      return FindMap<Float16>(step);
    default:
      return nullptr;
  }
}

KernelOr MakeProgram(const CompileRequest& request,
                     const PortableContext& context) {
  ProgramBuilder builder(request);
  if (!builder.AddNode()) return nullptr;
  // This functor takes all types, but is the slowest.
  ProgramLaunch launch = LaunchNumbers;
  builder.ChooseAccess(1);
  if (builder.IsFloat()) {
    launch = LaunchProgram;
    int width = ProgramFunctor::kWidth;
    if (const std::optional<DType> type = builder.OneType(); type.has_value()) {
      const ProgramLaunch map = FindMap(*type, builder.program().steps[0]);
      if (map != nullptr) {
        launch = map;
        // 16 bytes, the widest word that a thread reads at once.
        width = static_cast<int>(16 / SizeOf(*type));
      }
    }
    builder.ChooseAccess(width);
  }
  return MakeKernel([program = builder.program(), stream = context.stream,
                     launch](const KernelArguments& at) {
    ElementwiseProgram bound = program;
    for (int k = 0; k < bound.input_count; ++k) {
      bound.inputs[k].data = at.in<void>(static_cast<size_t>(k));
    }
    for (int r = 0; r < bound.result_count; ++r) {
      bound.results[r].data = at.out<void>(static_cast<size_t>(r));
    }
    launch(stream, bound);
  });
}

template <typename From, typename To>
std::unique_ptr<Kernel> MakeHotCast(LaunchStream stream, int64_t count) {
  return MakeKernel([=](const KernelArguments& at) {
    using Functor = CastFunctor<From, To>;
    LaunchFor(stream, CeilDivide(count, Functor::kWidth),
              Functor{at.in<From>(0), at.out<To>(0), count});
  });
}

KernelOr MakeCast(const CompileRequest& request,
                  const PortableContext& context) {
  const Value& x = InputOf(request, 0);
  const Value& y = OutputOf(request, 0);
  const int64_t count = y.shape.elements();
  const auto is = [&](DType from, DType to) {
    return x.dtype == from && y.dtype == to && x.layout == y.layout;
  };
  const LaunchStream stream = context.stream;
  // Mixed precision casts between these types all the time, so they have
  // functors of their own.
  if (is(DType::kFloat32, DType::kBFloat16)) {
    return MakeHotCast<float, BFloat16>(stream, count);
  }
  if (is(DType::kFloat32, DType::kFloat16)) {
    return MakeHotCast<float, Float16>(stream, count);
  }
  if (is(DType::kBFloat16, DType::kFloat32)) {
    return MakeHotCast<BFloat16, float>(stream, count);
  }
  if (is(DType::kFloat16, DType::kFloat32)) {
    return MakeHotCast<Float16, float>(stream, count);
  }
  return MakeProgram(request, context);
}

template <typename T>
std::unique_ptr<Kernel> MakeDropoutOf(const CompileRequest& request,
                                      LaunchStream stream) {
  const auto& dropout = request.node.get<DropoutAttributes>();
  DropoutFunctor<T> functor;
  functor.stream = dropout.stream;
  functor.count = OutputOf(request, 0).shape.elements();
  functor.threshold = static_cast<uint32_t>(
      std::ceil(static_cast<float>(dropout.probability) * 0x1p24));
  functor.scale = 1 / (1 - dropout.probability);
  return MakeKernel([functor, stream](const KernelArguments& at) {
    DropoutFunctor<T> bound = functor;
    bound.x = at.in<T>(0);
    bound.seed = at.in<int64_t>(1);
    bound.step = at.in<int64_t>(2);
    bound.y = at.out<T>(0);
    // Each call makes four elements from one Philox block.
    LaunchFor(stream, CeilDivide(bound.count, 4), bound);
  });
}

KernelOr MakeDropout(const CompileRequest& request, LaunchStream stream) {
  switch (InputOf(request, 0).dtype) {
    case DType::kFloat32:
      return MakeDropoutOf<float>(request, stream);
    case DType::kBFloat16:
      return MakeDropoutOf<BFloat16>(request, stream);
    case DType::kFloat16:
      return MakeDropoutOf<Float16>(request, stream);
    default:
      return MakeDropoutOf<double>(request, stream);
  }
}

KernelOr MakeRandom(const CompileRequest& request, LaunchStream stream) {
  const auto& random = request.node.get<RandomAttributes>();
  RandomFunctor functor;
  functor.stream = random.stream;
  functor.count = random.shape.elements();
  functor.normal = random.distribution == RandomDistribution::kNormal;
  functor.first = random.first;
  functor.second = random.second;
  return MakeKernel([functor, stream](const KernelArguments& at) {
    RandomFunctor bound = functor;
    bound.seed = at.in<int64_t>(0);
    bound.step = at.in<int64_t>(1);
    bound.y = at.out(0);
    LaunchFor(stream, CeilDivide(bound.count, 4), bound);
  });
}

}  // namespace

KernelOr MakeElementwise(const CompileRequest& request,
                         const PortableContext& context) {
  switch (request.node.op) {
    case Op::kCast:
      return MakeCast(request, context);
    case Op::kDropout:
      return MakeDropout(request, context.stream);
    case Op::kRandom:
      return MakeRandom(request, context.stream);
    default:
      return MakeProgram(request, context);
  }
}

}  // namespace gpupool::engine::portable
