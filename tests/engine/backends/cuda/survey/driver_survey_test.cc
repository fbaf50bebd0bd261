#include "engine/backends/cuda/survey/driver_survey.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace gpupool::engine::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kFake[] = GPUPOOL_FAKE_LIBCUDA;

// Sets a variable for the fake library during its lifetime.
class Asking {
 public:
  Asking(const char* name, const char* value) : name_(name) {
    ::setenv(name, value, 1);
  }
  ~Asking() { ::unsetenv(name_); }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

 private:
  const char* const name_;
};

TEST(DriverSurveyTest, AMachineWithoutTheLibrarySaysSo) {
  const DriverSurvey survey = SurveyDriver("libno-such-driver.so.1");
  EXPECT_FALSE(survey.loaded);
  EXPECT_THAT(survey.load_error, HasSubstr("libno-such-driver.so.1: cannot "
                                           "open shared object file"));
}

TEST(DriverSurveyTest, TellsWhatTheGpusAre) {
  const Asking count("FAKE_CUDA_COUNT", "2");
  const DriverSurvey survey = SurveyDriver(kFake);
  ASSERT_TRUE(survey.loaded) << survey.load_error;
  EXPECT_EQ(survey.path, kFake);
  EXPECT_EQ(survey.version, 13000);
  EXPECT_EQ(survey.call, "");
  ASSERT_EQ(survey.gpus.size(), 2u);
  EXPECT_EQ(survey.gpus[1].name, "NVIDIA Fake");
  EXPECT_EQ(survey.gpus[1].uuid, "GPU-00000000-0000-0000-0000-000000000001");
  EXPECT_EQ(survey.gpus[1].capability, 90);
  EXPECT_EQ(survey.gpus[1].total_bytes, uint64_t{80} << 30);
  EXPECT_TRUE(survey.gpus[1].virtual_memory);
  EXPECT_THAT(survey.gpus[0].peers, ElementsAre(true, true));
}

TEST(DriverSurveyTest, GpusMayBeApartAndVirtual) {
  const Asking count("FAKE_CUDA_COUNT", "2");
  const Asking apart("FAKE_CUDA_APART", "1");
  const Asking none("FAKE_CUDA_NO_VIRTUAL_MEMORY", "1");
  const DriverSurvey survey = SurveyDriver(kFake);
  ASSERT_EQ(survey.gpus.size(), 2u);
  EXPECT_THAT(survey.gpus[1].peers, ElementsAre(false, true));
  EXPECT_FALSE(survey.gpus[0].virtual_memory);
}

TEST(DriverSurveyTest, ADriverThatFailsStillTellsItsVersion) {
  const Asking init("FAKE_CUDA_INIT", "803");
  const Asking version("FAKE_CUDA_VERSION", "12040");
  const DriverSurvey survey = SurveyDriver(kFake);
  EXPECT_EQ(survey.version, 12040);
  EXPECT_EQ(survey.call, "cuInit");
  EXPECT_EQ(survey.code, 803);
  EXPECT_THAT(survey.gpus, IsEmpty());
}

TEST(DriverSurveyTest, ALibraryThatIsNoDriverIsRefusedByName) {
  const DriverSurvey survey = SurveyDriver("libz.so.1");
  EXPECT_TRUE(survey.loaded);
  EXPECT_THAT(survey.call, HasSubstr("cuInit"));
  EXPECT_NE(survey.code, 0);
}

}  // namespace
}  // namespace gpupool::engine::cuda
