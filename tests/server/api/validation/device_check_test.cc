#include "server/api/validation/device_check.h"

#include <gmock/gmock.h>

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string DeviceRefusal(const std::string& device) {
  const absl::Status status = CheckDevice("device", device);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << device;
  return std::string(status.message());
}

TEST(DeviceCheckTest, AcceptsNamesKindsAndAny) {
  for (const char* device :
       {"", "any", "cpu", "cuda", "cpu:0", "cuda:1", "cuda:15", "cpu:9999"}) {
    EXPECT_TRUE(CheckDevice("device", device).ok()) << device;
  }
}

TEST(DeviceCheckTest, SaysWhatToWriteInstead) {
  EXPECT_THAT(DeviceRefusal("gpu"), AllOf(HasSubstr("device is \"gpu\""),
                                          HasSubstr("write \"cuda\": ")));
  EXPECT_THAT(DeviceRefusal("gpu:1"), HasSubstr("write \"cuda:1\": "));
  EXPECT_THAT(DeviceRefusal("CUDA:2"), HasSubstr("write \"cuda:2\": "));
  EXPECT_THAT(DeviceRefusal("Cpu"), HasSubstr("write \"cpu\": "));
  EXPECT_THAT(DeviceRefusal("3"), HasSubstr("write \"cuda:3\": "));
  EXPECT_THAT(DeviceRefusal("mps"),
              AllOf(HasSubstr("device is \"mps\""),
                    HasSubstr("one device such as \"cuda:0\""),
                    Not(HasSubstr("write"))));
  EXPECT_THAT(DeviceRefusal("meta"), HasSubstr("a kind (\"cuda\" or \"cpu\")"));
}

TEST(DeviceCheckTest, ADeviceHasOneNumber) {
  for (const char* device : {"cuda:", "cuda:x", "cuda:-1", "cuda:1:2"}) {
    EXPECT_THAT(DeviceRefusal(device), HasSubstr("as in \"cuda:0\"")) << device;
  }
  EXPECT_THAT(DeviceRefusal("cuda:12345"), HasSubstr("at most 4 digits"));
  EXPECT_THAT(DeviceRefusal("cuda:0,1"),
              HasSubstr("their number in `devices`"));
  EXPECT_THAT(DeviceRefusal("cuda:0,cuda:1"), HasSubstr("\"cuda\""));
}

TEST(DeviceCheckTest, ANumberIsWrittenInOneWay) {
  for (const char* device :
       {"cuda:01", "cuda:1 ", "cuda: 1", " cuda:1", "cuda :1", "cuda:+1"}) {
    EXPECT_THAT(
        DeviceRefusal(device),
        HasSubstr("; write \"cuda:1\", without spaces, signs or leading "
                  "zeros"))
        << device;
  }
  EXPECT_THAT(DeviceRefusal("cuda:000"), HasSubstr("write \"cuda:0\""));
  EXPECT_THAT(DeviceRefusal(" cuda"), HasSubstr("write \"cuda\": "));
}

TEST(DeviceCheckTest, LettersBeyondAsciiStayAsTheyAre) {
  EXPECT_THAT(DeviceRefusal("c\xc3\xbc"
                            "da"),
              HasSubstr("device is \"c\xc3\xbc"
                        "da\";"));
}

TEST(DeviceCheckTest, AVersionIsLoadedOnOneDevice) {
  EXPECT_TRUE(CheckVersionDevice("cuda:1").ok());
  const absl::Status refused = CheckVersionDevice("cuda:0,1");
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("a version is loaded on one of them"),
                    HasSubstr("or \"cuda\" to take whichever"),
                    Not(HasSubstr("`devices`"))));
}

TEST(DeviceCheckTest, AJobOnSeveralDevicesNamesNone) {
  EXPECT_TRUE(CheckDeviceCount("cuda:1", 1).ok());
  EXPECT_TRUE(CheckDeviceCount("cuda:1", 0).ok());
  EXPECT_TRUE(CheckDeviceCount("cuda", 8).ok());
  EXPECT_TRUE(CheckDeviceCount("", 8).ok());
  const absl::Status refused = CheckDeviceCount("cuda:1", 2);
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(
      std::string(refused.message()),
      AllOf(HasSubstr("\"cuda:1\", one device, and the job wants up to 2"),
            HasSubstr("write `device: cuda`")));
}

}  // namespace
}  // namespace gpupool::server
