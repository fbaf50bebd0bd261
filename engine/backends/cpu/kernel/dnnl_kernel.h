// A kernel made of oneDNN primitives that run one after another: mostly one,
// with reorders around it where oneDNN wants weights in its own format.
// Primitives are made once; a run only executes them.
//
// oneDNN's C++ classes throw dnnl::error: the makers of kernels and Bind are
// the boundary that turns it into a Status (CpuBackend::Compile, Bind here).
#pragma once

#include <cstdint>
#include <dnnl.hpp>
#include <string>
#include <vector>

#include "engine/backends/cpu/kernel/context.h"
#include "engine/runtime/device_backend.h"

namespace gpupool::engine {

// Where an operand's bytes are.
enum class Where : uint8_t {
  kInput,      // `at` is the node's input
  kOutput,     // `at` is the node's output
  kWorkspace,  // `at` is an offset from AddWorkspace
  kResident,   // `at` is an offset from AddResident
  kScratch,    // oneDNN's scratchpad
};

struct Operand {
  int argument = 0;  // DNNL_ARG_...
  dnnl::memory::desc desc;
  Where where = Where::kInput;
  uint64_t at = 0;
};

enum class When : uint8_t { kRun, kPrepare };

class DnnlKernel : public Kernel {
 public:
  // `threads` as omp_get_max_threads() when the primitives were made.
  DnnlKernel(const CpuContext& context, int threads)
      : context_(context), threads_(threads) {}

  // Room between steps of one run; returns its offset.
  uint64_t AddWorkspace(uint64_t bytes);
  // Room for weights packed once; returns its offset.
  uint64_t AddResident(const dnnl::memory::desc& desc);
  void AddStep(When when, const dnnl::primitive& primitive,
               const dnnl::memory::desc& scratchpad,
               std::vector<Operand> operands);
  // Returns where the operand is in `wanted` format: itself when it already
  // has it, else a packed copy that a reorder makes, once for stable weights
  // and with each run otherwise.
  Operand Packed(const Operand& plain, const dnnl::memory::desc& wanted,
                 bool stable);
  // Adds the reorder of `from` into `to`; nothing runs where both turn out to
  // be the same bytes in the same format.
  void AddReorder(When when, const Operand& from, const Operand& to);

  uint64_t workspace_bytes() const override;
  uint64_t resident_bytes() const override { return resident_bytes_; }
  std::string resident_format() const override { return resident_format_; }
  absl::Status Bind(const KernelBuffers& buffers) override;
  absl::Status Prepare() override;
  absl::Status Run() override;

 private:
  struct Step {
    dnnl::primitive primitive;
    std::vector<Operand> operands;
    std::vector<dnnl::memory> memories;
    std::vector<dnnl_exec_arg_t> arguments;
    bool idle = false;  // a copy of bytes onto themselves
  };
  std::byte* AddressOf(const Operand& operand,
                       const KernelBuffers& buffers) const;
  absl::Status Execute(std::vector<Step>& steps);

  const CpuContext& context_;
  int threads_;
  uint64_t workspace_bytes_ = 0;  // without the scratchpad
  uint64_t scratch_bytes_ = 0;    // the largest
  uint64_t resident_bytes_ = 0;
  std::string resident_format_;
  std::vector<Step> run_steps_;
  std::vector<Step> prepare_steps_;
};

// Sets the team's size while primitives are made: their scratchpads and
// blocking depend on it.
class ScopedThreads {
 public:
  explicit ScopedThreads(int threads);
  ~ScopedThreads();
  ScopedThreads(const ScopedThreads&) = delete;
  ScopedThreads& operator=(const ScopedThreads&) = delete;

 private:
  int before_;
};

// Attributes that every primitive here uses: the caller brings the scratchpad.
dnnl::primitive_attr UserScratchpad();

// oneDNN's name of an element type that it knows.
dnnl::memory::data_type DnnlType(DType dtype);
// The plain format of a value of rank 1, 2, 4 or 5: its dtype, shape, layout.
dnnl::memory::desc DescOf(const Value& value);
dnnl::memory::desc DescOf(const Shape& shape, DType dtype, Layout layout);
// The same with the format left to oneDNN.
dnnl::memory::desc AnyFormat(const dnnl::memory::desc& desc);

// Post-ops "+ residual" and the activation. The residual is added to what the
// result's buffer holds before: see DnnlKernel::AddReorder. (Binary post-ops
// would save the copy, but oneDNN 2.6.3 miscomputes some of them.)
dnnl::post_ops EpiloguePostOps(const Epilogue& epilogue);

}  // namespace gpupool::engine
