#include "server/api/validation/sequence_options_check.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string SequenceRefusal(const v1::SequenceOptions& options) {
  const absl::Status refused =
      CheckSequenceOptions("serving.sequences", options);
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  return std::string(refused.message());
}

TEST(SequenceOptionsCheckTest, TakesWhatIsInTheLimits) {
  v1::SequenceOptions options;
  EXPECT_TRUE(CheckSequenceOptions("s", options).ok());
  options.set_max_sequences(kMaxSequences);
  options.set_max_idle_microseconds(kMaxIdleMicroseconds);
  options.add_states()->set_initial(std::string(kMaxInitialStateBytes, 'x'));
  auto* control = options.add_controls();
  control->set_kind(v1::SequenceOptions::Control::ID);
  control->set_true_value(-2147483647);
  EXPECT_TRUE(CheckSequenceOptions("s", options).ok());
}

TEST(SequenceOptionsCheckTest, NamesTheFieldAndTheLimit) {
  v1::SequenceOptions options;
  options.set_max_sequences(kMaxSequences + 1);
  EXPECT_THAT(SequenceRefusal(options),
              AllOf(HasSubstr("serving.sequences.max_sequences is 65537"),
                    HasSubstr("65536")));
  options.Clear();
  options.set_max_idle_microseconds(kMaxIdleMicroseconds + 1);
  EXPECT_THAT(SequenceRefusal(options), HasSubstr("one day"));
  options.Clear();
  options.add_states()->set_initial(std::string(kMaxInitialStateBytes, 'x'));
  options.add_states()->set_initial("x");
  EXPECT_THAT(SequenceRefusal(options),
              HasSubstr("begin with 65537 bytes, the limit is 65536"));
  options.Clear();
  for (int i = 0; i <= kMaxSequenceTensors; ++i) options.add_states();
  EXPECT_THAT(SequenceRefusal(options), HasSubstr(".states has 129 entries"));
}

TEST(SequenceOptionsCheckTest, AControlHasAKindAndNumbers) {
  v1::SequenceOptions options;
  auto* control = options.add_controls();
  control->set_input("flag");
  EXPECT_THAT(SequenceRefusal(options),
              AllOf(HasSubstr("'flag'"), HasSubstr("START, END, READY or ID")));
  control->set_kind(v1::SequenceOptions::Control::START);
  for (const double value : {3e9, std::numeric_limits<double>::quiet_NaN()}) {
    control->set_false_value(value);
    EXPECT_THAT(SequenceRefusal(options), HasSubstr("'flag' has the value"));
  }
}

}  // namespace
}  // namespace gpupool::server
