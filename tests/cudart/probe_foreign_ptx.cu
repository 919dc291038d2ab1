// A kernel that an sm_90 device cannot run: PTX for a newer one.
__global__ void only_sm_100() {}
void foreign_ptx() {
  only_sm_100<<<1, 1>>>();
}
