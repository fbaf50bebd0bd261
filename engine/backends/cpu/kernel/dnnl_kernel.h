// A kernel that runs oneDNN primitives one after another. Most have one, with
// reorders around it where oneDNN wants weights in its own format. Primitives
// are made once. A run only executes them.
//
// oneDNN's C++ classes throw dnnl::error. CpuBackend::Compile and Bind below
// catch it and return a Status.
#pragma once

#include <cstdint>
#include <dnnl.hpp>
#include <string>
#include <vector>

#include "engine/backends/cpu/kernel/context.h"
#include "engine/runtime/device_backend.h"

namespace gpupool::engine {

// The buffer that holds an operand's bytes.
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
  uint64_t skipped = 0;  // bytes before the operand in the buffer
};

enum class When : uint8_t { kRun, kPrepare };

class DnnlKernel : public Kernel {
 public:
  // `threads` must be omp_get_max_threads() at the time the primitives were
  // made.
  DnnlKernel(const CpuContext& context, int threads)
      : context_(context), threads_(threads) {}

  // Reserves memory that steps of one run share. Returns its offset.
  uint64_t AddWorkspace(uint64_t bytes);
  // Reserves memory for weights that are packed once. Returns its offset.
  uint64_t AddResident(const dnnl::memory::desc& desc);
  void AddStep(When when, const dnnl::primitive& primitive,
               const dnnl::memory::desc& scratchpad,
               std::vector<Operand> operands);
  // Returns the operand in the `wanted` format: `plain` itself when it has that
  // format, else a packed copy that a reorder makes. The reorder runs once for
  // stable weights, else with each run.
  Operand Packed(const Operand& plain, const dnnl::memory::desc& wanted,
                 bool stable);
  // Adds a reorder of `from` into `to`. It is skipped when both are the same
  // bytes in the same format.
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
    bool idle = false;  // true for a copy of bytes onto themselves
  };
  std::byte* AddressOf(const Operand& operand,
                       const KernelBuffers& buffers) const;
  absl::Status Execute(std::vector<Step>& steps);

  const CpuContext& context_;
  int threads_;
  uint64_t workspace_bytes_ = 0;  // without the scratchpad
  uint64_t scratch_bytes_ = 0;    // of the step that needs most
  uint64_t resident_bytes_ = 0;
  std::string resident_format_;
  std::vector<Step> run_steps_;
  std::vector<Step> prepare_steps_;
};

// Sets the size of the team while primitives are made, since their scratchpads
// and blocking depend on it. Restores the size afterwards.
class ScopedThreads {
 public:
  explicit ScopedThreads(int threads);
  ~ScopedThreads();
  ScopedThreads(const ScopedThreads&) = delete;
  ScopedThreads& operator=(const ScopedThreads&) = delete;

 private:
  int before_;
};

// Returns the attributes of every primitive here: the caller provides the
// scratchpad.
dnnl::primitive_attr UserScratchpad();

// Returns oneDNN's element type. `dtype` must be one that oneDNN knows.
dnnl::memory::data_type DnnlType(DType dtype);
// Returns the plain format of a value of rank 1, 2, 4 or 5.
dnnl::memory::desc DescOf(const Value& value);
dnnl::memory::desc DescOf(const Shape& shape, DType dtype, Layout layout);

// Returns the post-ops "+ residual" and the activation. oneDNN adds the
// residual from the result's buffer, so copy it there first
// (DnnlKernel::AddReorder). Binary post-ops would save the copy, but oneDNN
// 2.6.3 computes some of them wrong.
dnnl::post_ops EpiloguePostOps(const Epilogue& epilogue);

}  // namespace gpupool::engine
