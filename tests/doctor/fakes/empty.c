/* The contents of a libcudart that only has to have a name. */
int runtime_without_functions;
