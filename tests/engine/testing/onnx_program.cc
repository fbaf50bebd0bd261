#include "tests/engine/testing/onnx_program.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/philox.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"
#include "engine/import/model_programs.h"
#include "engine/runtime/weight_store.h"
#include "engine/train/initial_weights.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine::testing {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMemoryLimit = uint64_t{16} << 30;

void CheckOk(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::abort();
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  GPUPOOL_CHECK(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

// Puts the file into the folder under its digest, which it returns.
std::string AddBlob(const fs::path& folder, const std::string& path) {
  const std::string digest = Sha256Hex(ReadFile(path));
  fs::copy_file(path, folder / digest, fs::copy_options::overwrite_existing);
  return digest;
}

// A folder of blobs that lives as long as the source that reads it.
struct OpenedModel {
  OpenedModel() : folder(fs::temp_directory_path() / "gpupool-XXXXXX") {
    GPUPOOL_CHECK(::mkdtemp(folder.data()) != nullptr);
  }
  ~OpenedModel() { fs::remove_all(folder); }
  OpenedModel(const OpenedModel&) = delete;
  OpenedModel& operator=(const OpenedModel&) = delete;

  std::string folder;
  std::shared_ptr<const ModelSource> source;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const ModelSource>> OpenOnnx(
    const OnnxPaths& paths) {
  const auto opened = std::make_shared<OpenedModel>();
  const std::string& folder = opened->folder;
  v1::ModelSpec spec;
  v1::OnnxModel* onnx = spec.mutable_onnx();
  onnx->set_sha256(AddBlob(folder, paths.model));
  onnx->set_bytes(fs::file_size(paths.model));
  if (!paths.external.empty()) {
    v1::ExternalFile* file = onnx->add_external_files();
    file->set_location(paths.external_location);
    file->set_sha256(AddBlob(folder, paths.external));
    file->set_bytes(fs::file_size(paths.external));
  }
  ASSIGN_OR_RETURN(opened->source, ModelSource::Open(spec, folder));
  return std::shared_ptr<const ModelSource>(opened, opened->source.get());
}

OnnxProgram::OnnxProgram(std::shared_ptr<const ModelSource> source,
                         ModelGraph model, int threads)
    : source_(std::move(source)),
      model_(std::move(model)),
      backend_(threads),
      allocator_("cpu:0", kMemoryLimit, &segments_) {}

std::unique_ptr<OnnxProgram> OnnxProgram::ForInference(
    std::shared_ptr<const ModelSource> source, int64_t batch, int threads) {
  absl::StatusOr<ModelGraph> model =
      BuildInferenceGraph(*source, /*input_scaling=*/false, batch);
  CheckOk(model.status());
  std::unique_ptr<OnnxProgram> program(
      new OnnxProgram(std::move(source), *std::move(model), threads));
  program->Compile();
  return program;
}

std::unique_ptr<OnnxProgram> OnnxProgram::ForTraining(
    std::shared_ptr<const ModelSource> source, const v1::TrainingSpec& training,
    int threads) {
  absl::StatusOr<ModelGraph> model =
      BuildTrainingGraph(*source, v1::Scaling(), training);
  CheckOk(model.status());
  std::unique_ptr<OnnxProgram> program(
      new OnnxProgram(std::move(source), *std::move(model), threads));
  program->Compile();
  return program;
}

void OnnxProgram::Compile() {
  Graph graph = model_.graph;
  CheckOk(RunPasses(graph, {}, &passes_));
  absl::StatusOr<Program> program =
      Program::Compile(std::move(graph), &backend_);
  CheckOk(program.status());
  const Graph* graphs[] = {&program->graph()};
  absl::StatusOr<WeightLayout> layout = WeightLayout::Create(graphs);
  CheckOk(layout.status());
  absl::StatusOr<WeightStore> store =
      WeightStore::Create(*std::move(layout), "program", &allocator_);
  CheckOk(store.status());
  weights_ = std::make_unique<WeightStore>(*std::move(store));
  std::vector<PersistentSpec> used;
  for (const PersistentSpec& spec : model_.persistents) {
    if (weights_->layout().Find(spec.name) != nullptr) used.push_back(spec);
  }
  CheckOk(SetInitialWeights(*source_, used, 1, *weights_));
  absl::StatusOr<Allocation> arena =
      allocator_.Allocate(program->bytes().arena, {"program", "arena"});
  CheckOk(arena.status());
  arena_ = *std::move(arena);
  absl::StatusOr<std::unique_ptr<Executor>> executor =
      Executor::Create(*std::move(program), *weights_,
                       {arena_.data(), arena_.bytes()}, "program", &allocator_);
  CheckOk(executor.status());
  executor_ = *std::move(executor);
  CheckOk(executor_->Load());
}

void OnnxProgram::SetInput(absl::string_view name,
                           absl::Span<const float> numbers) {
  const absl::Span<std::byte> to = executor_->input(name);
  GPUPOOL_CHECK(to.size() == numbers.size() * sizeof(float));
  std::memcpy(to.data(), numbers.data(), to.size());
}

void OnnxProgram::SetInput(absl::string_view name,
                           absl::Span<const int64_t> numbers) {
  const absl::Span<std::byte> to = executor_->input(name);
  GPUPOOL_CHECK(to.size() == numbers.size() * sizeof(int64_t));
  std::memcpy(to.data(), numbers.data(), to.size());
}

void OnnxProgram::SetInput(absl::string_view name, double number) {
  const absl::Span<std::byte> to = executor_->input(name);
  GPUPOOL_CHECK(to.size() == sizeof(number));
  std::memcpy(to.data(), &number, sizeof(number));
}

void OnnxProgram::FillInput(absl::string_view name) {
  const absl::Span<std::byte> to = executor_->input(name);
  Philox random(7);
  for (size_t i = 0; i + sizeof(float) <= to.size(); i += sizeof(float)) {
    const float number = random.NextFloat() - 0.5f;
    std::memcpy(to.data() + i, &number, sizeof(number));
  }
}

absl::Span<const float> OnnxProgram::Output(absl::string_view name) const {
  const absl::Span<const std::byte> bytes = executor_->output(name);
  return {reinterpret_cast<const float*>(bytes.data()),
          bytes.size() / sizeof(float)};
}

std::string OnnxProgram::ProfileTable(int runs,
                                      const std::function<void()>& set_inputs) {
  Profile profile(0);
  for (int i = 0; i < runs; ++i) {
    set_inputs();
    CheckOk(executor_->RunProfiled(&profile));
  }
  return profile.Table(executor_->program().graph());
}

}  // namespace gpupool::engine::testing
