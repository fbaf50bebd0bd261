#include "server/api/rpc/visible_page.h"

#include <gtest/gtest.h>

#include <string>

#include "gpupool/v1/model.pb.h"

namespace gpupool::server {
namespace {

// Lists the models "0" to "9", whose tokens are their names.
absl::StatusOr<v1::ListModelsResponse> List(
    const v1::ListModelsRequest& request) {
  v1::ListModelsResponse page;
  int next =
      request.page_token().empty() ? 0 : std::stoi(request.page_token()) + 1;
  for (; next < 10 && page.models_size() < request.page_size(); ++next) {
    page.add_models()->set_name(std::to_string(next));
  }
  if (next < 10) page.set_next_page_token(std::to_string(next - 1));
  return page;
}

v1::ListModelsResponse Page(const std::string& token, int size,
                            const std::string& visible) {
  v1::ListModelsRequest request;
  request.set_page_token(token);
  request.set_page_size(size);
  return *VisiblePage<v1::ListModelsResponse, v1::ListModelsRequest>(
      request, List, [](auto* page) { return page->mutable_models(); },
      [&](const v1::Model& model) {
        return visible.find(model.name()) != std::string::npos;
      });
}

TEST(VisiblePageTest, TheTokenNamesARowThatTheCallerSees) {
  const v1::ListModelsResponse page = Page("", 2, "1479");
  ASSERT_EQ(page.models_size(), 2);
  EXPECT_EQ(page.models(1).name(), "4");
  EXPECT_EQ(page.next_page_token(), "4");
  const v1::ListModelsResponse next = Page("4", 2, "1479");
  ASSERT_EQ(next.models_size(), 2);
  EXPECT_EQ(next.models(1).name(), "9");
  EXPECT_EQ(next.next_page_token(), "");
}

TEST(VisiblePageTest, TheLastPageMayBeShort) {
  EXPECT_EQ(Page("", 100, "3").models_size(), 1);
  EXPECT_EQ(Page("", 3, "").models_size(), 0);
  EXPECT_EQ(Page("", 3, "").next_page_token(), "");
  EXPECT_EQ(Page("", 0, "0123456789").models_size(), 10);
}

}  // namespace
}  // namespace gpupool::server
