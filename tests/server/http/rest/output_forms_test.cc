#include "server/http/rest/output_forms.h"

#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

TEST(OutputFormsTest, OutputsAreJsonUnlessTheRequestOrTheySaySo) {
  OutputForms forms;
  EXPECT_FALSE(forms.IsBinary("y"));
  forms.SetBinary("y", true);
  EXPECT_TRUE(forms.IsBinary("y"));
  EXPECT_FALSE(forms.IsBinary("z"));
  forms.SetBinary(true);
  forms.SetBinary("y", false);
  EXPECT_FALSE(forms.IsBinary("y"));
  EXPECT_TRUE(forms.IsBinary("z"));
}

}  // namespace
}  // namespace gpupool::server
