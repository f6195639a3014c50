"""The test cloud's own tests use it as others do."""

from tests.clouds.aws.fixtures import aws_cloud, aws_process

__all__ = ["aws_cloud", "aws_process"]
