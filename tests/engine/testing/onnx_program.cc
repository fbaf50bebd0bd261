#include "tests/engine/testing/onnx_program.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/philox.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"
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

// Copies the file into the folder under its digest, and returns the digest.
std::string AddBlob(const fs::path& folder, const std::string& path) {
  const auto digest = Sha256HexOfFile(path);
  CheckOk(digest.status());
  fs::copy_file(path, folder / *digest, fs::copy_options::overwrite_existing);
  return *digest;
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

OnnxProgram::OnnxProgram(int threads)
    : backend_(threads), allocator_("cpu:0", kMemoryLimit, &segments_) {}

std::unique_ptr<OnnxProgram> OnnxProgram::ForInference(
    std::shared_ptr<const ModelSource> source, int64_t batch, int threads) {
  std::unique_ptr<OnnxProgram> program(new OnnxProgram(threads));
  program->Load(
      ModelProgram::ForInference(std::move(source), batch, program->device()));
  return program;
}

std::unique_ptr<OnnxProgram> OnnxProgram::ForTraining(
    std::shared_ptr<const ModelSource> source, const v1::TrainingSpec& training,
    int threads) {
  std::unique_ptr<OnnxProgram> program(new OnnxProgram(threads));
  program->Load(ModelProgram::ForTraining(std::move(source), training,
                                          program->device()));
  return program;
}

void OnnxProgram::Load(absl::StatusOr<std::unique_ptr<ModelProgram>> program) {
  CheckOk(program.status());
  program_ = *std::move(program);
  CheckOk(program_->Load());
}

void OnnxProgram::FillInput(absl::string_view name) {
  std::vector<float> numbers(program_->executor().input(name).size() /
                             sizeof(float));
  Philox random(7);
  for (float& number : numbers) number = random.NextFloat() - 0.5f;
  program_->SetInput(name, absl::MakeConstSpan(numbers));
}

std::string OnnxProgram::ProfileTable(int runs,
                                      const std::function<void()>& set_inputs) {
  Profile profile(0);
  for (int i = 0; i < runs; ++i) {
    set_inputs();
    CheckOk(program_->executor().RunProfiled(&profile));
  }
  return profile.Table(program_->program().graph());
}

}  // namespace gpupool::engine::testing
