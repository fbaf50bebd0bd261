#include <gtest/gtest.h>

#include "server/worker/doctor/judge.h"
#include "tests/server/worker/doctor/judge_cases.h"

namespace gpupool::server {
namespace {

// Returns a change that sets this number of the first GPU.
std::function<void(DoctorFacts&)> With(int64_t engine::cuda::NvmlGpu::*number,
                                       int64_t value) {
  return [=](DoctorFacts& facts) { facts.nvml.gpus[1].*number = value; };
}

using engine::cuda::NvmlGpu;

std::vector<JudgeCase> Settings() {
  return {
      {"gpu.prohibited", With(&NvmlGpu::compute_mode, 2), "cuda:1",
       "nvidia-smi -i 1 -c DEFAULT"},
      {"gpu.exclusive", With(&NvmlGpu::compute_mode, 3), "cuda:1"},
      {"gpu.exclusive", With(&NvmlGpu::compute_mode, 1), "cuda:1"},
      {"gpu.mig", With(&NvmlGpu::mig, 1), "cuda:1", "-mig 0"},
      {"gpu.persistence_off", With(&NvmlGpu::persistence, 0), "of cuda:1 is"},
      {"gpu.lost", [](DoctorFacts& facts) { facts.nvml.gpus[0].code = 15; },
       "GPU 0 of nvidia-smi"},
      {"gpu.memory_errors", With(&NvmlGpu::uncorrected_errors, 3),
       "counted 3 memory errors", "-i 1 -r"},
      {"gpu.remap_pending", With(&NvmlGpu::remap_pending, 1), "cuda:1"},
      {"gpu.remap_failed", With(&NvmlGpu::remap_failed, 1), "cuda:1",
       "replaced"},
  };
}

}  // namespace

std::vector<JudgeCase> GpuCases() {
  std::vector<JudgeCase> cases = {
      {"gpu.ok", [](DoctorFacts&) {},
       "cuda:0, NVIDIA H100: 80 GiB (79 GiB free), compute capability 9.0"},
      {"gpu.some_hidden",
       [](DoctorFacts& facts) {
         facts.driver.gpus.pop_back();
         facts.driver.gpus[0].peers.pop_back();
         facts.host.environment["CUDA_VISIBLE_DEVICES"] = "0";
       },
       "shows 1 of 2 GPUs"},
      {"gpu.no_code",
       [](DoctorFacts& facts) { facts.driver.gpus[1].capability = 120; },
       "cuda:1 has compute capability 12.0; the module has code for 8.0, 9.0",
       "GPUPOOL_CUDA_ARCHITECTURES=120"},
      {"gpu.no_code",
       [](DoctorFacts& facts) { facts.driver.gpus[1].capability = 75; }},
      {"gpu.too_old",
       [](DoctorFacts& facts) { facts.driver.gpus[1].capability = 61; },
       "cuda:1 has compute capability 6.1; gpupool needs 7.5"},
      {"gpu.compiled_at_start",
       [](DoctorFacts& facts) {
         facts.driver.gpus[1].capability = 120;
         facts.module.architectures.ptx = {90};
       },
       "12.0"},
      {"gpu.no_virtual_memory",
       [](DoctorFacts& facts) { facts.driver.gpus[0].virtual_memory = false; },
       "cuda:0"},
      {"gpu.memory_held",
       [](DoctorFacts& facts) {
         facts.nvml.gpus[0].free_bytes = int64_t{20} << 30;
         facts.nvml.gpus[0].processes = {{42, int64_t{59} << 30}, {43, -1}};
         facts.process_names[42] = "python3";
       },
       "cuda:0 has 20 GiB free of 80 GiB; python3 42 (59 GiB), process 43"},
      {"gpu.memory_held",
       [](DoctorFacts& facts) {
         facts.nvml.gpus[0].free_bytes = int64_t{20} << 30;
       },
       "processes that are not shown here"},
      {"peer.ok", [](DoctorFacts&) {}, "all 2 GPUs", ""},
      {"peer.none",
       [](DoctorFacts& facts) {
         facts.driver.gpus[0].peers = {true, false};
       },
       "cuda:0 and cuda:1"},
  };
  const auto settings = Settings();
  cases.insert(cases.end(), settings.begin(), settings.end());
  return cases;
}

namespace {

TEST(JudgeGpusTest, AServersOwnWorkersMayHoldMemory) {
  DoctorFacts facts = HealthyMachine();
  facts.nvml.gpus[0].free_bytes = 0;
  facts.nvml.gpus[0].processes = {{42, -1}};
  facts.process_names[42] = "gpupool-worker";
  Findings findings;
  JudgeGpus(facts, findings);
  EXPECT_EQ(findings.worst(), Severity::kOk);
}

TEST(JudgeGpusTest, ManyPairsAreCounted) {
  DoctorFacts facts = HealthyMachine();
  auto gpu = facts.driver.gpus[0];
  gpu.peers.assign(4, false);
  facts.driver.gpus.assign(4, gpu);
  Findings findings;
  JudgePeers(facts, findings);
  ASSERT_EQ(findings.all().size(), 1u);
  EXPECT_NE(findings.all()[0].text.find("2 more pairs"), std::string::npos);
}

TEST(JudgeGpusTest, AnUnknownModuleIsNotJudged) {
  DoctorFacts facts = HealthyMachine();
  facts.module.architectures = {};
  facts.driver.gpus[0].capability = 50;
  Findings findings;
  JudgeGpus(facts, findings);
  EXPECT_EQ(findings.worst(), Severity::kOk);
}

}  // namespace
}  // namespace gpupool::server
