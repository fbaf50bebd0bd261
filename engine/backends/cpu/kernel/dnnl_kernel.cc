#include "engine/backends/cpu/kernel/dnnl_kernel.h"

#include <omp.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/kernel/dnnl_versions.h"
#include "engine/base/align.h"
#include "engine/base/check.h"

namespace gpupool::engine {
namespace {

dnnl::memory::format_tag TagOf(int rank, Layout layout) {
  switch (rank) {
    case 1:
      return dnnl::memory::format_tag::a;
    case 2:
      return dnnl::memory::format_tag::ab;
    case 4:
      return layout == Layout::kChannelsLast ? dnnl::memory::format_tag::nhwc
                                             : dnnl::memory::format_tag::nchw;
    case 5:
      return dnnl::memory::format_tag::ncdhw;
    default:
      break;
  }
  GPUPOOL_CHECK(false && "a rank without oneDNN kernels");
  return dnnl::memory::format_tag::undef;
}

void AppendUnary(dnnl::post_ops& post_ops, const UnaryAttributes& unary) {
  const auto append = [&](dnnl::algorithm algorithm, double alpha,
                          double beta) {
    AppendFunction(post_ops, algorithm, static_cast<float>(alpha),
                   static_cast<float>(beta));
  };
  switch (unary.function) {
    case UnaryFunction::kClip:
      return append(dnnl::algorithm::eltwise_clip, unary.alpha, unary.beta);
    case UnaryFunction::kLeakyRelu:
      return append(dnnl::algorithm::eltwise_relu, unary.alpha, 0);
    case UnaryFunction::kSilu:
      return append(dnnl::algorithm::eltwise_swish, 1, 0);
    case UnaryFunction::kHardSwish:
      return append(dnnl::algorithm::eltwise_hardswish, 0, 0);
    default:
      GPUPOOL_CHECK(false && "a function that is no epilogue");
  }
}

void AppendActivation(dnnl::post_ops& post_ops, const Epilogue& epilogue) {
  const auto append = [&](dnnl::algorithm algorithm) {
    AppendFunction(post_ops, algorithm, 0.0f, 0.0f);
  };
  switch (epilogue.activation) {
    case Activation::kNone:
      return;
    case Activation::kRelu:
      return append(dnnl::algorithm::eltwise_relu);
    case Activation::kGelu:
      return append(dnnl::algorithm::eltwise_gelu_erf);
    case Activation::kGeluTanh:
      return append(dnnl::algorithm::eltwise_gelu_tanh);
    case Activation::kSigmoid:
      return append(dnnl::algorithm::eltwise_logistic);
    case Activation::kTanh:
      return append(dnnl::algorithm::eltwise_tanh);
    case Activation::kUnary:
      return AppendUnary(post_ops, epilogue.unary);
  }
}

// Returns whether a step is a reorder between operands that are the same bytes.
bool IsCopyOntoItself(const std::vector<Operand>& operands,
                      const std::vector<dnnl::memory>& memories) {
  return operands[0].argument == DNNL_ARG_FROM &&
         operands[0].desc == operands[1].desc &&
         memories[0].get_data_handle() == memories[1].get_data_handle();
}

}  // namespace

dnnl::memory::data_type DnnlType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return dnnl::memory::data_type::f32;
    case DType::kBFloat16:
      return dnnl::memory::data_type::bf16;
    case DType::kInt32:
      return dnnl::memory::data_type::s32;
    case DType::kUint8:
      return dnnl::memory::data_type::u8;
    case DType::kInt8:
      return dnnl::memory::data_type::s8;
    default:
      break;
  }
  GPUPOOL_CHECK(false && "a type without oneDNN kernels");
  return dnnl::memory::data_type::undef;
}

uint64_t DnnlKernel::AddWorkspace(uint64_t bytes) {
  const uint64_t offset = workspace_bytes_;
  workspace_bytes_ += AlignUp(bytes);
  return offset;
}

uint64_t DnnlKernel::AddResident(const dnnl::memory::desc& desc) {
  const uint64_t offset = resident_bytes_;
  resident_bytes_ += AlignUp(desc.get_size());
  absl::StrAppend(&resident_format_, FormatText(desc), ";");
  return offset;
}

void DnnlKernel::AddStep(When when, const dnnl::primitive& primitive,
                         const dnnl::memory::desc& scratchpad,
                         std::vector<Operand> operands) {
  if (scratchpad.get_size() > 0) {
    operands.push_back({DNNL_ARG_SCRATCHPAD, scratchpad, Where::kScratch, 0});
    scratch_bytes_ = std::max<uint64_t>(scratch_bytes_, scratchpad.get_size());
  }
  auto& steps = when == When::kRun ? run_steps_ : prepare_steps_;
  steps.push_back({primitive, std::move(operands), {}, {}});
}

void DnnlKernel::AddReorder(When when, const Operand& from, const Operand& to) {
  const dnnl::reorder::primitive_desc desc(context_.engine(), from.desc,
                                           context_.engine(), to.desc,
                                           UserScratchpad());
  Operand source = from, destination = to;
  source.argument = DNNL_ARG_FROM;
  destination.argument = DNNL_ARG_TO;
  AddStep(when, dnnl::reorder(desc), desc.scratchpad_desc(),
          {source, destination});
}

Operand DnnlKernel::Packed(const Operand& plain,
                           const dnnl::memory::desc& wanted, bool stable) {
  if (plain.desc == wanted) return plain;
  Operand packed{plain.argument, wanted};
  packed.where = stable ? Where::kResident : Where::kWorkspace;
  packed.at = stable ? AddResident(wanted) : AddWorkspace(wanted.get_size());
  AddReorder(stable ? When::kPrepare : When::kRun, plain, packed);
  return packed;
}

uint64_t DnnlKernel::workspace_bytes() const {
  return workspace_bytes_ + AlignUp(scratch_bytes_);
}

std::byte* DnnlKernel::AddressOf(const Operand& operand,
                                 const KernelBuffers& buffers) const {
  switch (operand.where) {
    case Where::kInput:
      return buffers.inputs[operand.at];
    case Where::kOutput:
      return buffers.outputs[operand.at];
    case Where::kWorkspace:
      return buffers.workspace + operand.at;
    case Where::kResident:
      return buffers.resident + operand.at;
    case Where::kScratch:
      // The steps share the scratchpad, which lies behind the rest of the
      // workspace.
      return buffers.workspace + workspace_bytes_;
  }
  return nullptr;
}

absl::Status DnnlKernel::Bind(const KernelBuffers& buffers) {
  try {
    // Memory objects are made here, since making them allocates. Run only
    // executes.
    for (auto* steps : {&run_steps_, &prepare_steps_}) {
      for (Step& step : *steps) {
        step.memories.clear();
        step.arguments.clear();
        for (const Operand& operand : step.operands) {
          step.memories.emplace_back(
              operand.desc, context_.engine(),
              AddressOf(operand, buffers) + operand.skipped);
          step.arguments.push_back(
              {operand.argument, step.memories.back().get()});
        }
        step.idle = IsCopyOntoItself(step.operands, step.memories);
      }
    }
  } catch (const dnnl::error& error) {
    return absl::InternalError(absl::StrCat("oneDNN: ", error.what()));
  }
  return absl::OkStatus();
}

absl::Status DnnlKernel::Prepare() { return Execute(prepare_steps_); }

absl::Status DnnlKernel::Run() { return Execute(run_steps_); }

absl::Status DnnlKernel::Execute(std::vector<Step>& steps) {
  // The primitives were made for a team of this size.
  omp_set_num_threads(threads_);
  for (Step& step : steps) {
    if (step.idle) continue;
    // The C function takes an array. The C++ one would build a map in each run.
    const dnnl_status_t status = dnnl_primitive_execute(
        step.primitive.get(), context_.stream().get(),
        static_cast<int>(step.arguments.size()), step.arguments.data());
    if (status != dnnl_success) {
      return absl::InternalError(absl::StrCat(
          "oneDNN: a primitive failed with status ", static_cast<int>(status)));
    }
  }
  return absl::OkStatus();
}

ScopedThreads::ScopedThreads(int threads) : before_(omp_get_max_threads()) {
  omp_set_num_threads(threads);
}

ScopedThreads::~ScopedThreads() { omp_set_num_threads(before_); }

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::memory::desc DescOf(const Shape& shape, DType dtype, Layout layout) {
  const dnnl::memory::dims dims(shape.dims().begin(), shape.dims().end());
  return {dims, DnnlType(dtype), TagOf(shape.rank(), layout)};
}

dnnl::memory::desc DescOf(const Value& value) {
  return DescOf(value.shape, value.dtype, value.layout);
}

dnnl::post_ops EpiloguePostOps(const Epilogue& epilogue) {
  dnnl::post_ops post_ops;
  // Post-ops run in the order in which they are added: first the sum.
  if (epilogue.residual) post_ops.append_sum(1.0f);
  AppendActivation(post_ops, epilogue);
  return post_ops;
}

}  // namespace gpupool::engine
