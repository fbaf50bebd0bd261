#include "server/worker/doctor/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/server/worker/doctor/judge_cases.h"

namespace gpupool::server {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kGiB = uint64_t{1} << 30;

DoctorFacts HealthyMachine() {
  DoctorFacts facts;
  HostFacts& host = facts.host;
  host.kernel_module = true;
  host.kernel_module_version = "580.65.06";
  host.pci_gpus = 2;
  host.gpu_files = {"/dev/nvidia0", "/dev/nvidia1"};
  host.control_file = true;
  host.memory_file = true;
  host.memory_bytes = 256 * kGiB;
  host.open_files = 65536;
  host.cores = 16;
  host.shm_bytes = 128 * kGiB;
  facts.gpus_asked = true;
  facts.driver.loaded = true;
  facts.driver.path = "/usr/lib/libcuda.so.1";
  facts.driver.version = 13000;
  facts.nvml.loaded = true;
  facts.nvml.driver_version = "580.65.06";
  for (int i = 0; i < 2; ++i) {
    const std::string uuid = absl::StrCat("GPU-", i);
    facts.driver.gpus.push_back(
        {"NVIDIA H100", uuid, 90, 80 * kGiB, true, {true, true}});
    facts.nvml.gpus.push_back({.name = "NVIDIA H100",
                               .uuid = uuid,
                               .total_bytes = int64_t{80} << 30,
                               .free_bytes = int64_t{79} << 30,
                               .compute_mode = 0,
                               .persistence = 1,
                               .mig = 0,
                               .uncorrected_errors = 0,
                               .remap_pending = 0,
                               .remap_failed = 0});
  }
  facts.libraries = {{"cuDNN", "libcudnn.so.9", "/opt/libcudnn.so.9", "9.19.0",
                      engine::cuda::LibraryState::kFound}};
  facts.module = {.folders = "/opt/bin or /opt/lib",
                  .path = "/opt/lib/libgpupool_cuda.so",
                  .architectures = {{80, 90}, {}}};
  facts.links = {"NVL"};
  facts.ring_bytes = kGiB / 4;
  facts.state = {"/var/lib/gpupool", "/var/lib/gpupool", "ext4", 100 * kGiB};
  facts.ports = {8001, 8000, 8002};
  return facts;
}

DoctorFacts MachineWithoutGpu() {
  DoctorFacts facts = HealthyMachine();
  facts.host.kernel_module = false;
  facts.host.kernel_module_version.clear();
  facts.host.pci_gpus = 0;
  facts.host.gpu_files.clear();
  facts.host.control_file = false;
  facts.host.memory_file = false;
  facts.driver = {};
  facts.driver.load_error =
      "libcuda.so.1: cannot open shared object file: No such file or directory";
  facts.nvml = {};
  facts.libraries.clear();
  facts.module = {.folders = "/opt/bin or /opt/lib"};
  facts.links.clear();
  return facts;
}

namespace {

std::vector<JudgeCase> AllCases() {
  std::vector<JudgeCase> all;
  for (const auto& cases : {DriverCases(), GpuCases(), LibraryCases(),
                            LimitCases(), PlaceCases()}) {
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

std::vector<Finding> FindingsOf(const DoctorFacts& facts) {
  Findings findings;
  Judge(facts, findings);
  return findings.all();
}

const Finding* Find(const std::vector<Finding>& findings,
                    const std::string& id) {
  for (const Finding& finding : findings) {
    if (finding.id == id) return &finding;
  }
  return nullptr;
}

std::string Listed(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& one : findings) {
    absl::StrAppend(&text, one.id, ": ", one.text, "\n");
  }
  return text;
}

TEST(JudgeTest, AHealthyMachineHasNothingToDo) {
  for (const Finding& finding : FindingsOf(HealthyMachine())) {
    EXPECT_EQ(finding.severity, Severity::kOk) << finding.id;
    EXPECT_EQ(finding.remedy, "") << finding.id;
  }
}

TEST(JudgeTest, AMachineWithoutAGpuHasNotesOnly) {
  Findings findings;
  Judge(MachineWithoutGpu(), findings);
  EXPECT_EQ(findings.worst(), Severity::kNote) << Listed(findings.all());
  Findings expecting(/*expect_gpu=*/true);
  Judge(MachineWithoutGpu(), expecting);
  EXPECT_EQ(Find(expecting.all(), "driver.none")->severity, Severity::kFail);
}

TEST(JudgeTest, EveryCaseHasItsFindingAndNoOther) {
  const auto healthy = FindingsOf(HealthyMachine());
  for (const JudgeCase& one : AllCases()) {
    SCOPED_TRACE(absl::StrCat(one.id, " ", one.text));
    DoctorFacts facts = HealthyMachine();
    one.change(facts);
    const auto findings = FindingsOf(facts);
    const Finding* const found = Find(findings, one.id);
    ASSERT_NE(found, nullptr) << Listed(findings);
    EXPECT_THAT(found->text, HasSubstr(one.text));
    EXPECT_THAT(found->remedy, HasSubstr(one.remedy));
    for (const Finding& finding : findings) {
      EXPECT_THAT(finding.text, Not(HasSubstr("$")));
      EXPECT_THAT(finding.remedy, Not(HasSubstr("$")));
      if (one.alone && finding.id != one.id) {
        EXPECT_EQ(finding.severity, Severity::kOk) << finding.id;
      }
    }
    if (found->severity == Severity::kOk) continue;
    EXPECT_EQ(Find(healthy, one.id), nullptr);
  }
}

TEST(JudgeTest, EveryFindingHasACase) {
  std::set<std::string> cases;
  for (const JudgeCase& one : AllCases()) cases.insert(one.id);
  for (const FindingKind& kind : FindingKinds()) {
    EXPECT_EQ(cases.count(kind.id), 1u) << kind.id;
  }
}

TEST(JudgeTest, WhatIsNotOkHasARemedy) {
  for (const FindingKind& kind : FindingKinds()) {
    const std::string remedy = kind.remedy;
    if (kind.severity == Severity::kOk) {
      EXPECT_EQ(remedy, "") << kind.id;
    } else if (std::string(kind.id) != "driver.wsl") {
      EXPECT_NE(remedy, "") << kind.id;
    }
  }
}

TEST(JudgeTest, DriversAreNotJudgedWhereNobodyAsked) {
  DoctorFacts facts = HealthyMachine();
  facts.gpus_asked = false;
  facts.driver.code = 999;
  facts.driver.call = "cuInit";
  for (const Finding& finding : FindingsOf(facts)) {
    EXPECT_EQ(finding.severity, Severity::kOk) << finding.id;
    EXPECT_NE(finding.id.substr(0, 7), "driver.");
  }
}

TEST(JudgeTest, WritesNumbersAsPeopleDo) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(uint64_t{512} << 20), "512 MiB");
  EXPECT_EQ(BytesText(uint64_t{1536} << 20), "1.5 GiB");
  EXPECT_EQ(CudaVersionText(12040), "12.4");
  EXPECT_EQ(CapabilityText(120), "12.0");
}

}  // namespace
}  // namespace gpupool::server
