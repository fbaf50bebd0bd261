#include "engine/backends/cuda/survey/nvml_survey.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace gpupool::engine::cuda {
namespace {

using ::testing::IsEmpty;

NvmlSurvey Survey() { return SurveyNvml(GPUPOOL_FAKE_NVML_DIR); }

// Sets a variable for the fake library during its lifetime.
class AskingNvml {
 public:
  AskingNvml(const char* name, const char* value) : name_(name) {
    ::setenv(name, value, 1);
  }
  ~AskingNvml() { ::unsetenv(name_); }
  AskingNvml(const AskingNvml&) = delete;
  AskingNvml& operator=(const AskingNvml&) = delete;

 private:
  const char* const name_;
};

TEST(NvmlSurveyTest, TellsTheSettingsOfEveryGpu) {
  const AskingNvml free("FAKE_NVML_FREE_GIB", "5");
  const AskingNvml mode("FAKE_NVML_COMPUTE_MODE", "3");
  const AskingNvml persistence("FAKE_NVML_PERSISTENCE", "0");
  const AskingNvml mig("FAKE_NVML_MIG", "1");
  const AskingNvml remap("FAKE_NVML_REMAP_PENDING", "1");
  const NvmlSurvey survey = Survey();
  ASSERT_TRUE(survey.loaded) << survey.load_error;
  EXPECT_EQ(survey.code, 0);
  EXPECT_EQ(survey.driver_version, "580.0.1");
  ASSERT_EQ(survey.gpus.size(), 3u);
  const NvmlGpu& gpu = survey.gpus[2];
  EXPECT_EQ(gpu.name, "NVIDIA Fake");
  EXPECT_EQ(gpu.uuid, "GPU-00000000-0000-0000-0000-000000000002");
  EXPECT_EQ(gpu.code, 0);
  EXPECT_EQ(gpu.total_bytes, int64_t{80} << 30);
  EXPECT_EQ(gpu.free_bytes, int64_t{5} << 30);
  EXPECT_EQ(gpu.compute_mode, 3);
  EXPECT_EQ(gpu.persistence, 0);
  EXPECT_EQ(gpu.mig, 1);
  EXPECT_EQ(gpu.uncorrected_errors, 0);
  EXPECT_EQ(gpu.remap_pending, 1);
  EXPECT_EQ(gpu.remap_failed, 0);
  ASSERT_EQ(gpu.processes.size(), 2u);
  EXPECT_EQ(gpu.processes[0].pid, 42);
  EXPECT_EQ(gpu.processes[0].bytes, 300);
  EXPECT_EQ(gpu.processes[1].bytes, kNotTold);
}

TEST(NvmlSurveyTest, ItsCodeAndWordsAreKept) {
  const AskingNvml init("FAKE_NVML_INIT", "18");
  const NvmlSurvey survey = Survey();
  EXPECT_EQ(survey.code, 18);
  EXPECT_EQ(survey.code_text, "Driver/library version mismatch");
  EXPECT_THAT(survey.gpus, IsEmpty());
}

TEST(NvmlSurveyTest, AGpuThatIsLostIsTold) {
  const AskingNvml lost("FAKE_NVML_LOST", "1");
  const NvmlSurvey survey = Survey();
  ASSERT_EQ(survey.gpus.size(), 3u);
  EXPECT_EQ(survey.gpus[0].code, 15);
  EXPECT_EQ(survey.gpus[0].free_bytes, kNotTold);
}

}  // namespace
}  // namespace gpupool::engine::cuda
