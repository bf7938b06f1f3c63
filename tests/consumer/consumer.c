#include <ballast.h>
#include <stdio.h>

int main(int argc, char** argv) {
  ballast_archive* archive = NULL;
  ballast_error* error = ballast_archive_open(argc > 1 ? argv[1] : "", NULL, &archive);
  if (error != NULL) return fprintf(stderr, "%s\n", ballast_error_message(error).data), 1;
  printf("ballast %s", ballast_version());
  for (size_t i = 0; i < ballast_archive_tensor_count(archive); ++i) {
    ballast_tensor_info info = {.struct_size = sizeof info};
    if ((error = ballast_archive_tensor_info(archive, i, &info)) != NULL) return 1;
    printf(" %s", info.name.data);
  }
  ballast_archive_close(archive);
}
