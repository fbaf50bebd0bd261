#include <gtest/gtest.h>

#include "server/worker/doctor/judge.h"
#include "tests/server/worker/doctor/judge_cases.h"

namespace gpupool::server {
namespace {

using engine::cuda::LibraryState;

std::function<void(DoctorFacts&)> Library(const std::string& name,
                                          LibraryState state,
                                          const std::string& detail = "") {
  return [=](DoctorFacts& facts) {
    facts.libraries = {
        {name, "lib" + name + ".so.9", "", "9.1.0", state, detail}};
  };
}

std::vector<JudgeCase> Module() {
  return {
      {"module.ok", [](DoctorFacts&) {},
       "/opt/lib/libgpupool_cuda.so has code for 8.0, 9.0"},
      {"module.missing",
       [](DoctorFacts& facts) {
         facts.module = {.folders = "/opt/bin or /opt/lib"};
       },
       "in /opt/bin or /opt/lib"},
      {"module.absent", [](DoctorFacts& facts) { facts = MachineWithoutGpu(); },
       "", "nvcc",
       /*alone=*/false},
      {"module.unusable",
       [](DoctorFacts& facts) {
         facts.module.load_error = "it belongs to another build";
       },
       "another build"},
      {"module.fails",
       [](DoctorFacts& facts) { facts.module.count_error = "no reason"; },
       "no reason"},
      {"module.crashes",
       [](DoctorFacts& facts) {
         facts.module_asked = absl::AbortedError("killed by signal 6");
       },
       "signal 6"},
  };
}

}  // namespace

std::vector<JudgeCase> LibraryCases() {
  std::vector<JudgeCase> cases = {
      {"library.ok", [](DoctorFacts&) {}, "cuDNN 9.19.0 in /opt"},
      {"library.ok",
       [](DoctorFacts& facts) { facts.libraries[0].version.clear(); },
       "cuDNN in /opt"},
      {"library.missing", Library("cuBLASLt", LibraryState::kMissing),
       "many times slower", "libcublas-13-0"},
      {"library.missing", Library("NCCL", LibraryState::kMissing),
       "jobs on several GPUs fail", "libnccl2"},
      {"library.optional_missing", Library("CUPTI", LibraryState::kMissing),
       "events", "cuda-cupti"},
      {"library.other_major",
       Library("cuDNN", LibraryState::kOtherMajor, "/usr/lib/libcudnn.so.8"),
       "/usr/lib/libcudnn.so.8"},
      {"library.other_cuda", Library("cuDNN", LibraryState::kOtherCuda, "12"),
       "made for CUDA 12, not 13", "libcudnn9-cuda-13"},
      {"library.too_old", Library("NCCL", LibraryState::kTooOld, "2.14.0"),
       "NCCL 9.1.0 is too old, it must be 2.14.0"},
      {"library.part_missing",
       Library("cuDNN", LibraryState::kPartMissing, "libcudnn_graph.so.9"),
       "libcudnn_graph.so.9"},
      {"library.unusable",
       Library("NVRTC", LibraryState::kUnusable, "undefined symbol"),
       "undefined symbol"},
      {"library.fatal",
       Library("NCCL", LibraryState::kFatal, "killed by signal 7"),
       "NCCL (libNCCL.so.9) ends or stops the process that loads it: killed "
       "by signal 7",
       "libnccl2"},
      {"library.passed_over",
       [](DoctorFacts& facts) {
         facts.libraries[0].passed_over = {"/a/libcudnn.so.9: file too short"};
       },
       "cuDNN is taken from /opt/libcudnn.so.9, since another file cannot be "
       "loaded: /a/libcudnn.so.9: file too short",
       "libcudnn9-cuda-13"},
      {"library.no_folder",
       [](DoctorFacts& facts) { facts.folder_errors = {"/a is not there"}; },
       "/a is not there", "full paths"},
      {"library.nvml_missing",
       [](DoctorFacts& facts) {
         facts.nvml = {};
         facts.host.kernel_module_version = "580.1";
       },
       "temperatures", "utility"},
      {"library.nvml_failed",
       [](DoctorFacts& facts) {
         facts.nvml.code = 4;
         facts.nvml.code_text = "Insufficient Permissions";
         facts.nvml.gpus.clear();
       },
       "Insufficient Permissions"},
      {"library.nvml_failed",
       [](DoctorFacts& facts) {
         facts.nvml = {};
         facts.nvml_asked = absl::AbortedError("killed by signal 11");
       },
       "signal 11"},
  };
  const auto module = Module();
  cases.insert(cases.end(), module.begin(), module.end());
  return cases;
}

namespace {

TEST(JudgeLibrariesTest, OneGpuNeedsNoSumsOverSeveral) {
  DoctorFacts facts = HealthyMachine();
  Library("NCCL", LibraryState::kMissing)(facts);
  facts.driver.gpus.pop_back();
  Findings findings;
  JudgeLibraries(facts, findings);
  EXPECT_EQ(findings.worst(), Severity::kNote);
}

TEST(JudgeLibrariesTest, NothingIsMissedWhereNoGpuWorks) {
  DoctorFacts facts = HealthyMachine();
  Library("cuDNN", LibraryState::kMissing)(facts);
  facts.driver.gpus.clear();
  Findings findings;
  JudgeLibraries(facts, findings);
  EXPECT_TRUE(findings.all().empty());
}

}  // namespace
}  // namespace gpupool::server
