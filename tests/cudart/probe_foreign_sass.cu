// A kernel that an sm_90 device cannot run: machine code for sm_80 alone.
__global__ void only_sm_80() {}
void foreign_sass() {
  only_sm_80<<<1, 1>>>();
}
