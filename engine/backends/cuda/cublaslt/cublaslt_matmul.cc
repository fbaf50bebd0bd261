#include "engine/backends/cuda/cublaslt/cublaslt_matmul.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/cublaslt/matmul_problem.h"
#include "engine/backends/cuda/kernels/scratch_notes.h"
#include "engine/backends/cuda/kernels/single_op.h"
#include "engine/backends/cuda/streams/stopwatch.h"
#include "engine/base/align.h"
#include "engine/base/status_macros.h"
#include "engine/runtime/plan_only.h"

namespace gpupool::engine::cuda {
namespace {

// Most bytes of workspace. NVIDIA recommends it for Hopper and Blackwell
// (cublasSetWorkspace in the cuBLAS manual). The library asks for less on other
// GPUs.
constexpr uint64_t kMostWorkspace = uint64_t{32} << 20;
constexpr uint64_t kWorkspaceAlignment = 256;
constexpr int kCandidates = 8;

cudaDataType_t DataTypeOf(DType type) {
  switch (type) {
    case DType::kFloat16:
      return CUDA_R_16F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

cublasLtEpilogue_t EpilogueOf(const ProductEpilogue& epilogue) {
  int code = CUBLASLT_EPILOGUE_DEFAULT;
  switch (epilogue.activation) {
    case Activation::kRelu:
      code =
          epilogue.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
      break;
    case Activation::kGeluTanh:
      code =
          epilogue.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
      break;
    default:
      if (epilogue.bias) code = CUBLASLT_EPILOGUE_BIAS;
  }
  return static_cast<cublasLtEpilogue_t>(code);
}

// Library objects, which their destructors destroy. Setters keep the first
// error.

class Operation {
 public:
  Operation(const CublasLtFunctions* f, const MatmulProblem& problem) : f_(f) {
    const cublasComputeType_t compute = problem.tensor_float32
                                            ? CUBLAS_COMPUTE_32F_FAST_TF32
                                            : CUBLAS_COMPUTE_32F;
    error_ = StatusOf(f->make_operation(&handle_, compute, CUDA_R_32F),
                      "describing a product");
    const cublasOperation_t first =
        problem.first.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second =
        problem.second.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = EpilogueOf(problem.epilogue);
    Set(CUBLASLT_MATMUL_DESC_TRANSA, first);
    Set(CUBLASLT_MATMUL_DESC_TRANSB, second);
    Set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  }
  ~Operation() {
    if (handle_ != nullptr) f_->drop_operation(handle_);
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  template <typename T>
  void Set(cublasLtMatmulDescAttributes_t name, const T& value) {
    if (!error_.ok()) return;
    error_ = StatusOf(f_->set_operation(handle_, name, &value, sizeof(value)),
                      "describing a product");
  }
  cublasLtMatmulDesc_t get() const { return handle_; }
  const absl::Status& status() const { return error_; }

 private:
  const CublasLtFunctions* const f_;
  cublasLtMatmulDesc_t handle_ = nullptr;
  absl::Status error_;
};

class MatrixLayout {
 public:
  MatrixLayout(const CublasLtFunctions* f, const MatmulProblem& problem,
               const ProductMatrix& matrix)
      : f_(f) {
    error_ = StatusOf(
        f->make_layout(&handle_, DataTypeOf(problem.type),
                       static_cast<uint64_t>(matrix.rows),
                       static_cast<uint64_t>(matrix.columns), matrix.leading),
        "describing a matrix");
    if (problem.batch == 1) return;
    Set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, problem.batch);
    Set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.batch_stride);
  }
  ~MatrixLayout() {
    if (handle_ != nullptr) f_->drop_layout(handle_);
  }
  MatrixLayout(const MatrixLayout&) = delete;
  MatrixLayout& operator=(const MatrixLayout&) = delete;

  cublasLtMatrixLayout_t get() const { return handle_; }
  const absl::Status& status() const { return error_; }

 private:
  template <typename T>
  void Set(cublasLtMatrixLayoutAttribute_t name, const T& value) {
    if (!error_.ok()) return;
    error_ = StatusOf(f_->set_layout(handle_, name, &value, sizeof(value)),
                      "describing a batch of matrices");
  }

  const CublasLtFunctions* const f_;
  cublasLtMatrixLayout_t handle_ = nullptr;
  absl::Status error_;
};

class Preference {
 public:
  explicit Preference(const CublasLtFunctions* f) : f_(f) {
    error_ = StatusOf(f->make_preference(&handle_), "asking for algorithms");
  }
  ~Preference() {
    if (handle_ != nullptr) f_->drop_preference(handle_);
  }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;

  template <typename T>
  void Set(cublasLtMatmulPreferenceAttributes_t name, const T& value) {
    if (!error_.ok()) return;
    error_ = StatusOf(f_->set_preference(handle_, name, &value, sizeof(value)),
                      "asking for algorithms");
  }
  cublasLtMatmulPreference_t get() const { return handle_; }
  const absl::Status& status() const { return error_; }

 private:
  const CublasLtFunctions* const f_;
  cublasLtMatmulPreference_t handle_ = nullptr;
  absl::Status error_;
};

std::string KeyOf(const CublasLt& library, const MatmulProblem& problem) {
  return absl::StrCat(library.name(), ": ", problem.Text());
}

// Returns the key of a note about scratch memory, which also depends on
// options.
std::string NoteKeyOf(const CublasLt& library, const MatmulProblem& problem,
                      const KernelOptions& options) {
  return absl::StrCat(KeyOf(library, problem),
                      options.deterministic ? " deterministic" : "",
                      options.benchmark ? " measured" : "");
}

uint64_t PaddedWorkspace(uint64_t bytes) {
  // The kernel aligns its workspace itself, which may skip some bytes.
  return bytes == 0 ? 0 : bytes + kWorkspaceAlignment;
}

class MatmulKernel : public Kernel {
 public:
  MatmulKernel(const CublasLt* library, MatmulProblem problem,
               const KernelOptions& options)
      : library_(library),
        f_(&library->functions()),
        problem_(std::move(problem)),
        deterministic_(options.deterministic),
        measures_(options.benchmark && !options.deterministic),
        operation_(f_, problem_),
        first_(f_, problem_, problem_.first),
        second_(f_, problem_, problem_.second),
        result_(f_, problem_, problem_.result) {}

  // Chooses algorithms. UNIMPLEMENTED when the library has none.
  absl::Status Choose();
  // Sets a kernel that runs after the product, in place.
  void SetFollower(std::unique_ptr<Kernel> follower) {
    follower_ = std::move(follower);
  }

  uint64_t workspace_bytes() const override {
    return PaddedWorkspace(workspace_);
  }
  // Returns the bytes that the library asked for.
  uint64_t algorithm_bytes() const { return workspace_; }
  absl::Status Bind(const KernelBuffers& buffers) override;
  absl::Status Prepare() override;
  absl::Status Run() override {
    RETURN_IF_ERROR(RunProduct(candidates_[0]));
    return follower_ == nullptr ? absl::OkStatus() : follower_->Run();
  }

 private:
  struct Candidate {
    cublasLtMatmulAlgo_t algorithm;
    uint64_t workspace = 0;
  };

  std::string Key() const { return KeyOf(*library_, problem_); }
  absl::Status Ask();
  // Restores the kept choice. Returns false when there is none that still
  // works.
  bool Restore();
  absl::Status RunProduct(const Candidate& candidate);

  const CublasLt* const library_;
  const CublasLtFunctions* const f_;
  const MatmulProblem problem_;
  const bool deterministic_;
  bool measures_;
  Operation operation_;
  const MatrixLayout first_, second_, result_;
  std::vector<Candidate> candidates_;  // the first one is used
  uint64_t workspace_ = 0;             // largest of the candidates
  std::unique_ptr<Kernel> follower_;
  KernelBuffers buffers_;
};

absl::Status MatmulKernel::Choose() {
  RETURN_IF_ERROR(operation_.status());
  RETURN_IF_ERROR(first_.status());
  RETURN_IF_ERROR(second_.status());
  RETURN_IF_ERROR(result_.status());
  if (measures_ && Restore()) {
    measures_ = false;
  } else {
    RETURN_IF_ERROR(Ask());
  }
  for (const Candidate& candidate : candidates_) {
    workspace_ = std::max(workspace_, candidate.workspace);
  }
  return absl::OkStatus();
}

bool MatmulKernel::Restore() {
  const absl::StatusOr<std::string> kept = library_->cache().Find(Key());
  Candidate candidate;
  if (!kept.ok() || kept->size() != sizeof(candidate.algorithm)) return false;
  std::memcpy(&candidate.algorithm, kept->data(), kept->size());
  // The driver or the library may have changed since the algorithm was kept.
  cublasLtMatmulHeuristicResult_t checked;
  const cublasStatus_t code = f_->check(
      library_->handle(), operation_.get(), first_.get(), second_.get(),
      result_.get(), result_.get(), &candidate.algorithm, &checked);
  if (code != CUBLAS_STATUS_SUCCESS || checked.workspaceSize > kMostWorkspace) {
    library_->cache().Forget(Key());
    return false;
  }
  candidate.workspace = checked.workspaceSize;
  candidates_ = {candidate};
  return true;
}

absl::Status MatmulKernel::Ask() {
  Preference preference(f_);
  // The library's A is the node's second operand (matmul_problem.h).
  preference.Set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
  preference.Set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                 problem_.AlignmentOf(&ProductOffsets::b));
  preference.Set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                 problem_.AlignmentOf(&ProductOffsets::a));
  const uint32_t result = problem_.AlignmentOf(&ProductOffsets::y);
  preference.Set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, result);
  preference.Set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, result);
  if (deterministic_) {
    // The parts of a sum are joined in the workspace, in a fixed order. Joining
    // them in the output by atomic additions would depend on the timing.
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    preference.Set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
  }
  RETURN_IF_ERROR(preference.status());
  cublasLtMatmulHeuristicResult_t found[kCandidates];
  int count = 0;
  RETURN_IF_ERROR(
      StatusOf(f_->heuristic(library_->handle(), operation_.get(), first_.get(),
                             second_.get(), result_.get(), result_.get(),
                             preference.get(), measures_ ? kCandidates : 1,
                             found, &count),
               "asking for algorithms"));
  for (int i = 0; i < count; ++i) {
    if (found[i].state != CUBLAS_STATUS_SUCCESS) continue;
    candidates_.push_back({found[i].algo, found[i].workspaceSize});
  }
  if (!candidates_.empty()) return absl::OkStatus();
  return absl::UnimplementedError("cuBLASLt has no algorithm");
}

absl::Status MatmulKernel::Bind(const KernelBuffers& buffers) {
  buffers_ = buffers;
  buffers_.workspace = reinterpret_cast<std::byte*>(AlignUp(
      reinterpret_cast<uint64_t>(buffers.workspace), kWorkspaceAlignment));
  if (problem_.epilogue.bias) {
    const void* bias = buffers.inputs[2];
    operation_.Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  if (follower_ != nullptr) {
    KernelBuffers behind;
    behind.inputs = {buffers.outputs[0]};
    behind.outputs = {buffers.outputs[0]};
    RETURN_IF_ERROR(follower_->Bind(behind));
  }
  return operation_.status();
}

absl::Status MatmulKernel::Prepare() {
  if (!measures_) return absl::OkStatus();
  // Only the first Prepare measures.
  measures_ = false;
  if (candidates_.size() == 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      const size_t best,
      FindFastest(library_->stream(), candidates_.size(),
                  [&](size_t i) { return RunProduct(candidates_[i]); }));
  std::swap(candidates_[0], candidates_[best]);
  const cublasLtMatmulAlgo_t& chosen = candidates_[0].algorithm;
  library_->cache().Put(
      Key(), {reinterpret_cast<const char*>(&chosen), sizeof(chosen)});
  return absl::OkStatus();
}

absl::Status MatmulKernel::RunProduct(const Candidate& candidate) {
  const auto scale = static_cast<float>(problem_.scale);
  const float addend = problem_.epilogue.residual ? 1.0F : 0.0F;
  const auto bytes = static_cast<int64_t>(SizeOf(problem_.type));
  for (const ProductOffsets& at : problem_.calls) {
    std::byte* y = buffers_.outputs[0] + at.y * bytes;
    // Without an addend the library does not read C.
    const std::byte* c = y;
    if (problem_.epilogue.residual) {
      c = buffers_.inputs[problem_.epilogue.bias ? 3 : 2];
    }
    RETURN_IF_ERROR(StatusOf(
        f_->matmul(library_->handle(), operation_.get(), &scale,
                   buffers_.inputs[1] + at.b * bytes, first_.get(),
                   buffers_.inputs[0] + at.a * bytes, second_.get(), &addend, c,
                   result_.get(), y, result_.get(), &candidate.algorithm,
                   buffers_.workspace, workspace_, library_->stream()),
        "multiplying matrices"));
  }
  return absl::OkStatus();
}

}  // namespace

CublasLt::CublasLt(const CublasLtFunctions& functions, cudaStream_t stream,
                   absl::string_view device, PlanCache* cache)
    : functions_(functions),
      stream_(stream),
      cache_(cache),
      name_(absl::StrCat("cublaslt ", CublasLtVersion(functions), " on ",
                         device)) {}

CublasLt::~CublasLt() {
  if (handle_ != nullptr) functions_.destroy(handle_);
}

absl::StatusOr<std::unique_ptr<CublasLt>> CublasLt::Open(
    const CublasLtFunctions& functions, cudaStream_t stream,
    absl::string_view device, PlanCache* cache) {
  std::unique_ptr<CublasLt> library(
      new CublasLt(functions, stream, device, cache));
  RETURN_IF_ERROR(
      StatusOf(functions.create(&library->handle_), "starting cuBLASLt"));
  return library;
}

std::unique_ptr<CublasLt> CublasLt::ForPlanning(
    const CublasLtFunctions& functions, absl::string_view device,
    PlanCache* cache) {
  return absl::WrapUnique(new CublasLt(functions, nullptr, device, cache));
}

portable::KernelOr MakeCublasLtMatmul(
    const CublasLt* library, const CompileRequest& request,
    const portable::PortableContext& context) {
  std::optional<MatmulProblem> problem = DescribeMatmul(request);
  if (!problem.has_value()) return nullptr;
  const std::string note = NoteKeyOf(*library, *problem, request.options);
  if (library->only_plans()) {
    const uint64_t bytes =
        FindScratch(library->cache(), note).value_or(kMostWorkspace);
    return std::make_unique<PlanOnlyKernel>(
        KernelSizes{.workspace_bytes = PaddedWorkspace(bytes)});
  }
  Epilogue left_over;
  left_over.activation = problem->left_over;
  left_over.unary = problem->left_over_unary;
  ASSIGN_OR_RETURN(
      auto follower,
      MakeEpilogue(left_over, portable::OutputOf(request, 0), context));
  auto kernel = std::make_unique<MatmulKernel>(library, *std::move(problem),
                                               request.options);
  RETURN_IF_ERROR(kernel->Choose());
  NoteScratch(library->cache(), note, kernel->algorithm_bytes());
  kernel->SetFollower(std::move(follower));
  return kernel;
}

}  // namespace gpupool::engine::cuda
